// Contract: out[t] = bf16(sum over the slots j in order of fma(w_j, y_j, acc)), y_j the bf16 row of GEMM 2 of
// pair (t, j); pairs without a local row add nothing, a token without any gets zeros. grid = tokens * chunks
// of 8 * threads columns. Plan: a thread owns eight columns of one token; eight slots' rows are read before
// their fused adds, so that eight 16-byte loads are in flight; one rounding and one 16-byte store at the end.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/combine_params.hpp"
#include "device/kernels/row_access.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ std::int64_t row_to_add(const CombineParams& p, std::int64_t pair) {
    if (planted(Fault::foreign_expert_adds_a_row) && p.row_of_pair != nullptr && p.row_of_pair[pair] < 0)
      return 0;
    if (p.row_of_pair != nullptr) return p.row_of_pair[pair];
    const std::uint32_t local = std::uint32_t(p.ids[pair]) - std::uint32_t(p.first_expert);
    if (planted(Fault::foreign_id_taken_for_local) && std::int32_t(local) >= 0) return pair;
    return local < std::uint32_t(p.local_experts) ? pair : -1;
  }

  /// For a planted fault alone.
  __device__ __forceinline__ std::int64_t offset_in_32_bits(const CombineParams& p, std::int64_t row) {
    return std::int32_t(std::uint32_t(row) * std::uint32_t(p.gemm2_stride));
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
      if (planted(Fault::combine_adds_to_old_output))
        load_bf16x8(sum, p.out + token * p.out_stride + column, count);
      for (int first = 0; first < p.top_k; first += kInFlight) {
        uint4 raw[kInFlight];
        float weight[kInFlight];
        std::int64_t row[kInFlight];
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          const std::int64_t pair =
              planted(Fault::slots_added_backwards, (token + 1) * p.top_k - 1 - first - j,
                      token * p.top_k + first + j);
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
          if (row[j] >= 0)
            raw[j] = load_raw_bf16x8(p.gemm2 +
                                         planted(Fault::row_offset_in_32_bits, offset_in_32_bits(p, row[j]),
                                                 row[j] * p.gemm2_stride) +
                                         column,
                                     count);
        }
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          if (row[j] < 0) continue;
          float y[kVector];
          widen_bf16x8(raw[j], y);
          if (planted(Fault::weight_applied_twice)) weight[j] = hopper::mul_rn(weight[j], weight[j]);
#pragma unroll
          for (int i = 0; i < kVector; ++i)
            sum[i] = planted(Fault::sum_not_fused, hopper::add_rn(sum[i], hopper::mul_rn(weight[j], y[i])),
                             hopper::fma_rn(weight[j], y[i], sum[i]));
        }
      }
      store_bf16x8(p.out + token * p.out_stride + column, sum, count);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
