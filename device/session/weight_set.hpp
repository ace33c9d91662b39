// Where do the weights of one grouped GEMM lie? Codes as rows with a stride of whole 16 bytes (K itself may
// be any number), scales and bias as the host holds them.
// Only the experts that the host filled are copied; nobody reads the others.
#pragma once
#include <cstdint>
#include <string>

#include "device/kernels/grouped_gemm_params.hpp"
#include "device/machine.hpp"
#include "device/session/device_rows.hpp"
#include "fixtures/problem/quant_scheme.hpp"

namespace moe::device {

struct WeightSet {
  std::int64_t experts = 0, n = 0, k = 0;
  Rows codes;                                       // [experts * n] rows of k
  Address scale = 0, bias = 0;                      // bias 0 = none
  std::int32_t scale_expert = 0, scale_column = 0;  // strides of flat scales, GroupedGemmParams
};

/// Throws BadInput when shapes do not fit the contract. `bias` may be null.
WeightSet upload_weights(Machine& machine, const Tensor& codes, const Tensor& scale, const Tensor* bias,
                         const QuantScheme& quant);

/// A second set of the same sizes and scales whose codes are drawn on the machine from `seed`: for timing
/// with cold L2.
WeightSet generate_weights_like(Machine& machine, const WeightSet& first, std::uint64_t seed,
                                std::uint32_t number);

/// Bytes of one expert's codes.
inline std::int64_t expert_bytes(const WeightSet& set) { return set.n * set.k; }

/// Sets weights (boxes of block_n rows), w_scale, bias, n, k, experts and the strides of the flat scales.
void describe_weights(Machine& machine, GroupedGemmParams& params, const WeightSet& set, int block_n);

}  // namespace moe::device
