// Contract: whatever way a grouped_gemm contract names its groups, expert_of_row[r] = local expert of row r,
// so that count_rows and place_rows treat all contracts alike (`contiguous` already has this form). One
// thread an entry. routed: row = pair; a pair listed under expert -1 gets kZeroedRow, one that is not listed
// keeps kNoExpert.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/expert_of_rows_params.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Last expert whose first row is not behind `row`, kNoExpert outside all of them. Offsets ascend.
  __device__ __forceinline__ std::int32_t expert_by_offset(const ExpertOfRowsParams& p, std::int64_t row) {
    if (row < p.offsets[0] || row >= p.offsets[p.experts]) return kNoExpert;
    std::int32_t low = 0, high = p.experts;
    while (high - low > 1) {
      const std::int32_t middle = (low + high) / 2;
      (p.offsets[middle] <= row ? low : high) = middle;
    }
    return low;
  }

  struct ExpertOfRows {
    using Params = ExpertOfRowsParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
      switch (p.groups) {
        case RowGroups::routed: {
          if (i >= p.entries || i >= *p.padded_rows) return;
          const std::int64_t row = p.sorted_token_ids[i];
          if (row < 0 || row >= p.rows) return;
          const std::int32_t expert = p.expert_ids[i / p.block_m];
          p.expert_of_row[row] = expert >= 0 ? expert : kZeroedRow;
          return;
        }
        case RowGroups::masked:
          if (i < p.rows)
            p.expert_of_row[i] = i % p.max_m < p.counts[i / p.max_m] ? std::int32_t(i / p.max_m) : kNoExpert;
          return;
        case RowGroups::offsets:
          if (i < p.rows) p.expert_of_row[i] = expert_by_offset(p, i);
          return;
      }
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
