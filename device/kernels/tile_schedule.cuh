// Which tiles does a CTA of a persistent grouped GEMM compute, and in which order? CTA c takes tiles c, c +
// grid, ... of one list that all share: experts ascending; inside an expert panel (128 weight rows) major,
// token block minor, so that CTAs running together share a weight panel. tile = block_start[e] * panels +
// panel * blocks(e) + block.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_params.hpp"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  struct Tile {
    int expert, panel;
    int row, rows;  // first sorted row; rows that exist, 1..block_m
  };

  /// One warp's walk over its CTA's tiles. Lane i finds tile i of each 32, so that the search is paid once
  /// for 32 tiles. All lanes call next() together.
  template <int BlockM>
  class TileWalk {
   public:
    /// `block_start` is the copy in shared memory; `panels` is ceil(N / 128).
    __device__ __forceinline__ TileWalk(const GroupedGemmParams& p, const std::int32_t* block_start,
                                        int panels)
        : row_start_(p.row_start),
          rows_(p.rows),
          block_start_(block_start),
          experts_(p.experts),
          panels_(panels),
          first_(int(blockIdx.x)),
          lane_(int(threadIdx.x) % 32) {}

    __device__ __forceinline__ bool next(Tile& tile) {
      if (position_ == 0) find(first_ + lane_ * int(gridDim.x));
      tile.expert = int(hopper::shfl_idx(std::uint32_t(own_.expert), position_));
      tile.panel = int(hopper::shfl_idx(std::uint32_t(own_.panel), position_));
      tile.row = int(hopper::shfl_idx(std::uint32_t(own_.row), position_));
      tile.rows = int(hopper::shfl_idx(std::uint32_t(own_.rows), position_));
      if (++position_ == 32) {
        position_ = 0;
        first_ += 32 * int(gridDim.x);
      }
      return tile.expert >= 0;
    }

   private:
    __device__ __forceinline__ void find(int tile) {
      own_ = {-1, 0, 0, 0};
      const int block = tile / panels_;  // in the list of all experts' blocks: says which expert
      if (block >= block_start_[experts_]) return;
      int e = 0;  // last expert whose first block is not behind `block`
      for (int end = experts_; end - e > 1;) {
        const int middle = (e + end) / 2;
        if (block_start_[middle] <= block)
          e = middle;
        else
          end = middle;
      }
      const int blocks = block_start_[e + 1] - block_start_[e], local = tile - block_start_[e] * panels_;
      const int first = (local % blocks) * BlockM, left = rows_[e] - first;
      own_ = {e, planted(Fault::tile_map_not_a_bijection, local % panels_, local / blocks),
              row_start_[e] + first, left < BlockM ? left : BlockM};
    }

    const std::int32_t *row_start_, *rows_, *block_start_;
    int experts_, panels_, first_, lane_, position_ = 0;
    Tile own_ = {-1, 0, 0, 0};
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
