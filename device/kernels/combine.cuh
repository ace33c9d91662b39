// Contract: out[t] = bf16(sum over the slots j in order of fma(w_j, y_j, acc)), y_j the bf16 row of GEMM 2 of
// pair (t, j); pairs without a local row add nothing, a token without any gets zeros. grid = tokens * chunks
// of 8 * threads columns. Plan: a thread owns eight columns of one token; four slots' rows are read before
// their fused adds, so that four 16-byte loads are in flight; one rounding and one 16-byte store at the end.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/combine_params.hpp"
#include "device/kernels/row_access.cuh"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ std::int64_t row_to_add(const CombineParams& p, std::int64_t pair) {
    if (p.row_of_pair != nullptr) return p.row_of_pair[pair];
    const std::uint32_t local = std::uint32_t(p.ids[pair]) - std::uint32_t(p.first_expert);
    return local < std::uint32_t(p.local_experts) ? pair : -1;
  }

  struct Combine {
    using Params = CombineParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      constexpr int kInFlight = 4;
      const std::int64_t width = kVector * std::int64_t(blockDim.x), chunks = (p.columns + width - 1) / width;
      const std::int64_t token = blockIdx.x / chunks;
      const std::int64_t column = (blockIdx.x % chunks) * width + kVector * std::int64_t(threadIdx.x);
      if (column >= p.columns) return;
      const std::int64_t count = p.columns - column;
      float sum[kVector] = {};
      for (int first = 0; first < p.top_k; first += kInFlight) {
        float y[kInFlight][kVector], weight[kInFlight];
        std::int64_t row[kInFlight];
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          const std::int64_t pair = token * p.top_k + first + j;
          row[j] = first + j < p.top_k ? row_to_add(p, pair) : -1;
          if (row[j] < 0) continue;
          weight[j] = p.weights == nullptr ? 1.0f : p.weights[pair];
          load_bf16x8(y[j], p.gemm2 + row[j] * p.gemm2_stride + column, count);
        }
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
#pragma unroll
          for (int i = 0; i < kVector; ++i) {
            if (row[j] >= 0) sum[i] = hopper::fma_rn(weight[j], y[j][i], sum[i]);
          }
        }
      }
      store_bf16x8(p.out + token * p.out_stride + column, sum, count);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
