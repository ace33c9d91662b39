// Contract: bf16 rows of GEMM 1 -> activation in fp32 -> e4m3 codes and scales (quantize_row.cuh), row by row
// in the order the rows lie in. grid = pairs * chunks, kMaxWarps words of dynamic shared memory. act_amax:
// partial_max[c] = largest activated magnitude of the rows CTA c read. Plan: a CTA takes `chunk` activated
// columns of one pair, finds its row, and leaves it alone when another rank owns the pair. Nothing is rounded
// between the bf16 input and the codes; the formulas are fixtures/README.md, "exp, to the bit", every
// operation one rounding (exact_math.hpp).
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/act_quant_params.hpp"
#include "device/kernels/exact_math.hpp"
#include "device/kernels/quantize_row.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ float clamped(float x, float low, float high) {
    return x < low ? low : (x > high ? high : x);
  }

  __device__ __forceinline__ float activate(const ActivationRule& rule, float gate, float up) {
    switch (rule.kind) {
      case ActivationKind::silu_mul:
        return exact::silu(gate) * up;
      case ActivationKind::silu_mul_clamped: {
        const float g = gate > rule.limit && !planted(Fault::activation_limit_ignored) ? rule.limit : gate;
        const float u = clamped(up, -rule.limit, rule.limit);
        return g / (1.0f + exact::exp(-(rule.alpha * g))) * (u + rule.beta);
      }
      case ActivationKind::gelu_tanh_mul: {
        const float inner = 0.797884561f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.0f + exact::tanh(inner)) * up;
      }
      case ActivationKind::relu2:
        break;
    }
    const float positive = gate < 0.0f ? 0.0f : gate;
    return positive * positive;
  }

  __device__ __forceinline__ void load_activated(
      const Gemm1Rows& gemm1, std::int64_t row, std::int64_t column, std::int64_t count, float(&v)[kVector]) {
    const std::uint16_t* gate = gemm1.values + row * gemm1.stride + column;
    const bool gated = gemm1.activation.kind != ActivationKind::relu2;
    const uint4 raw = load_raw_bf16x8(gate, count);
    const uint4 raw_up = load_raw_bf16x8(gate + gemm1.columns, gated ? count : 0);
    float up[kVector];
    widen_bf16x8(raw, v);
    widen_bf16x8(raw_up, up);
    if (planted(Fault::gate_and_up_exchanged)) {
      widen_bf16x8(raw_up, v);
      widen_bf16x8(raw, up);
    }
    if (gemm1.activation.kind == ActivationKind::silu_mul) {
      // exact::silu in two passes: a division branches, and the exponentials shall overlap
      float divisor[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) divisor[i] = 1.0f + exact::exp(-v[i]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[i] = v[i] / divisor[i] * up[i];
      if (planted(Fault::activation_rounded_to_bf16)) {
        for (float& x : v) x = hopper::as_float(hopper::pack_bf16(0.0f, x) & 0xFFFF0000u);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) v[i] = activate(gemm1.activation, v[i], up[i]);
  }

  __device__ __forceinline__ std::int64_t row_of(const Gemm1Rows& gemm1, std::int64_t pair) {
    return gemm1.row_of_pair == nullptr ? pair : std::int64_t(gemm1.row_of_pair[pair]);
  }

  struct ActAmax {
    using Params = ActAmaxParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<float*>(hopper::dynamic_smem());
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      float amax = 0.0f;
      for (std::int64_t pair = blockIdx.x; pair < p.gemm1.pairs; pair += gridDim.x) {
        const std::int64_t row = row_of(p.gemm1, pair);
        if (row < 0) continue;
        amax = hopper::max_mag(
            amax,
            own_amax(0, p.gemm1.columns, [&](std::int64_t column, std::int64_t count, float(&v)[kVector]) {
              load_activated(p.gemm1, row, column, count, v);
            }));
      }
      amax = cta_max_magnitude(amax, scratch);
      if (threadIdx.x == 0) p.partial_max[blockIdx.x] = amax;
    }
  };

  struct ActQuant {
    using Params = ActQuantParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<float*>(hopper::dynamic_smem());
      const std::int64_t chunks = (p.gemm1.columns + p.chunk - 1) / p.chunk;
      const std::int64_t pair = blockIdx.x / chunks, first = (blockIdx.x % chunks) * p.chunk;
      const std::int64_t last = first + p.chunk < p.gemm1.columns ? first + p.chunk : p.gemm1.columns;
      const std::int64_t row = row_of(p.gemm1, pair);  // older than the kernel in front
      const bool per_row = p.rule.granule != ScaleGranule::tensor;
      if (!planted(Fault::grid_not_awaited)) hopper::grid_wait();
      hopper::grid_launch_dependents();

      if (!per_row && blockIdx.x == 0) {  // one scale for all, even when the first pair is another rank's
        const float scale = tensor_scale(p.rule, scratch);
        if (threadIdx.x == 0) write_scale(p.out, 0, 0, scale);
      }
      if (row < 0 && !planted(Fault::foreign_row_activated)) return;
      const auto load = [&](std::int64_t column, std::int64_t count, float(&v)[kVector]) {
        load_activated(p.gemm1, row, column, count, v);
      };
      const auto store = [&](std::int64_t column, std::int64_t count, std::uint64_t codes) {
        write_codes(p.out, row, column, count, codes);
      };
      const auto store_scale = [&](std::int64_t block, float scale) {
        if (per_row) write_scale(p.out, row, block, scale);
      };
      quantize_columns(p.rule, first, last, scratch, load, store, store_scale);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
