// Parameters of act_quant and act_amax (act_quant.cuh).
#pragma once
#include <cstdint>

#include "device/kernels/scale_rule.hpp"

namespace moe::device {

enum class ActivationKind : std::int32_t { silu_mul, silu_mul_clamped, gelu_tanh_mul, relu2 };

struct ActivationRule {
  ActivationKind kind = ActivationKind::silu_mul;
  float limit = 0, alpha = 1, beta = 0;  // of silu_mul_clamped
};

/// Rows of GEMM 1 before the activation: gate columns 0..columns, then up columns (none for relu2).
struct Gemm1Rows {
  const std::uint16_t* values = nullptr;      // bf16
  std::int64_t stride = 0;                    // elements from row to row
  std::int64_t pairs = 0, columns = 0;        // columns of the activated row
  const std::int32_t* row_of_pair = nullptr;  // [pairs] sorted row or -1 (skipped); null: row = pair
  ActivationRule activation;
};

struct ActQuantParams {
  Gemm1Rows gemm1;
  ScaleRule rule;
  std::int32_t chunk = 0;  // columns a CTA takes, a multiple of 128; all of them for granule `row`
  QuantizedOut out;        // rows as in gemm1
};

struct ActAmaxParams {
  Gemm1Rows gemm1;
  float* partial_max = nullptr;  // out [gridDim.x]
};

}  // namespace moe::device
