// Contract: rows[e] = number of pairs whose id is first_expert + e; grid = local experts, 32..1024 threads.
// Plan: one CTA an expert; its threads read all ids (16 bytes an access, they stay in L2) and count matches.
// No atomics and no cleared memory: every word of the output has one writer.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/count_rows_params.hpp"
#include "device/kernels/warp_sums.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Ids 4*index .. 4*index+3, -1 beyond `count`. `ids` is aligned to 16 bytes.
  __device__ __forceinline__ uint4 load_ids(const std::int32_t* ids, std::int64_t index, std::int64_t count) {
    const std::int64_t first = 4 * index;
    if (first + planted(Fault::ids_read_past_end, 1, 4) <= count)
      return *reinterpret_cast<const uint4*>(ids + first);
    constexpr std::uint32_t kNone = 0xFFFFFFFFu;
    return uint4{first < count ? std::uint32_t(ids[first]) : kNone,
                 first + 1 < count ? std::uint32_t(ids[first + 1]) : kNone,
                 first + 2 < count ? std::uint32_t(ids[first + 2]) : kNone, kNone};
  }

  __device__ __forceinline__ bool is_match(std::uint32_t id, std::uint32_t expert) {
    return id == expert || (planted(Fault::minus_one_counts_for_expert_0) && id == ~0u && expert == 0);
  }

  __device__ __forceinline__ std::uint32_t matches(const uint4& ids, std::uint32_t expert) {
    const std::uint32_t found =
        std::uint32_t(is_match(ids.x, expert)) + std::uint32_t(is_match(ids.y, expert)) +
        std::uint32_t(is_match(ids.z, expert)) + std::uint32_t(is_match(ids.w, expert));
    return planted(Fault::duplicates_counted_once, found != 0 ? 1u : 0u, found);
  }

  struct CountRows {
    using Params = CountRowsParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<std::uint32_t*>(hopper::dynamic_smem());
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::uint32_t expert = std::uint32_t(p.first_expert) + blockIdx.x;
      const std::int64_t vectors = (p.count + 3) / 4;
      std::uint32_t found = 0;
#pragma unroll 4
      for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x)
        found += matches(load_ids(p.ids, i, p.count), expert);
      found = cta_sum(found, scratch);
      if (planted(Fault::count_clears_next_expert) && threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x)
        p.rows[blockIdx.x + 1] = 0;
      if (threadIdx.x == 0) p.rows[blockIdx.x] = std::int32_t(found);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
