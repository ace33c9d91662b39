// What do planted faults of the grouped GEMM do that right code never does? Called behind a hook alone; a
// release build instantiates none of it.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_params.hpp"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Writes a word of the warpgroup's own operand with its own value; the group meets, but no
  /// fence.proxy.async follows. `rows` is the operand's first row in the stage.
  __device__ __forceinline__ void rewrite_stage(const std::uint8_t* rows, int group) {
    if (threadIdx.x % 128 == 0) {
      auto* word = reinterpret_cast<volatile std::uint32_t*>(const_cast<std::uint8_t*>(rows));
      *word = *word;
    }
    hopper::named_barrier(1 + group, 128);
  }

  /// One warp's four arrivals for its whole warpgroup.
  __device__ __forceinline__ void give_back_for_all(std::uint64_t * empty) {
    if (threadIdx.x % 128 != 0) return;
    for (int warp = 0; warp < 4; ++warp) hopper::mbar_arrive(empty);
  }

  /// store_patch by asynchronous copies: a lane a row, in one bulk group a warp.
  template <int Rows, int Columns>
  __device__ __forceinline__ void store_patch_by_bulk(const GroupedGemmParams& p, const std::uint8_t* patch,
                                                      int pitch, int destination, int column) {
    const int lane = int(threadIdx.x) % 32, r = int(threadIdx.x) / 32 % 4 * (Rows / 4) + lane;
    const int left = p.n - column, columns = left < Columns ? left : Columns;
    if (lane < Rows / 4 && destination >= 0 && columns > 0)
      hopper::bulk_store(p.out + std::int64_t(destination) * p.ld_out + column, patch + r * pitch,
                         unsigned(2 * columns));
    if (!planted(Fault::bulk_store_not_committed)) hopper::bulk_commit();
    if (!planted(Fault::bulk_store_not_awaited)) hopper::bulk_wait<0>();
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
