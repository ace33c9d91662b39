// Contract: out[t] = bf16(sum over the slots j in order of fma(w_j, y_j, acc)), y_j the bf16 row of GEMM 2 of
// pair (t, j); pairs without a local row add nothing, a token without any gets zeros. grid = tokens * chunks
// of 8 * threads columns. Plan: a thread owns eight columns of one token; eight slots' rows are read before
// their fused adds, so that eight 16-byte loads are in flight; one rounding and one 16-byte store at the end.
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
      constexpr int kInFlight = 8;
      const std::int64_t width = kVector * std::int64_t(blockDim.x), chunks = (p.columns + width - 1) / width;
      const std::int64_t token = blockIdx.x / chunks;
      const std::int64_t column = (blockIdx.x % chunks) * width + kVector * std::int64_t(threadIdx.x);
      if (column >= p.columns) return;
      const std::int64_t count = p.columns - column;
      float sum[kVector] = {};
      for (int first = 0; first < p.top_k; first += kInFlight) {
        uint4 raw[kInFlight];
        float weight[kInFlight];
        std::int64_t row[kInFlight];
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          const std::int64_t pair = token * p.top_k + first + j;
          const bool there = first + j < p.top_k;
          row[j] = there ? row_to_add(p, pair) : -1;
          weight[j] = there && p.weights != nullptr ? p.weights[pair] : 1.0f;
        }
        if (first == 0) {  // what was read above is older than the kernel in front
          hopper::grid_wait();
          hopper::grid_launch_dependents();
        }
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          if (row[j] >= 0) raw[j] = load_raw_bf16x8(p.gemm2 + row[j] * p.gemm2_stride + column, count);
        }
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          if (row[j] < 0) continue;
          float y[kVector];
          widen_bf16x8(raw[j], y);
#pragma unroll
          for (int i = 0; i < kVector; ++i) sum[i] = hopper::fma_rn(weight[j], y[i], sum[i]);
        }
      }
      store_bf16x8(p.out + token * p.out_stride + column, sum, count);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
