// Contract: grouped_gemm (grouped_gemm.cuh) of GatheredGemmParams: the same tiles, math and bits, without a
// sorted copy of the token codes. Pipeline: as there but for the producer warp, whose lanes fetch one token
// row of a k-block each (lane i rows i, i + 32, ..), a TMA box of 1 x 128 bytes: the swizzle follows the
// address in shared memory, so rows that land one by one lie as in a box of all of them. Rows behind the
// expert's last are asked for outside the matrix, which costs no memory and gives zeros. Scales come sorted.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/gathered_gemm_params.hpp"
#include "device/kernels/grouped_gemm.cuh"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// The token rows of a tile that this lane fetches.
  template <GemmConfig C>
  struct RowGather {
    static constexpr int kShare = (C.block_m + 31) / 32;
    int token[kShare];

    __device__ __forceinline__ RowGather(const GatheredGemmParams& p, const Tile& tile) {
#pragma unroll
      for (int i = 0; i < kShare; ++i) {
        const int r = lane_id() + 32 * i;
        token[i] = r < tile.rows ? p.pair_of_row[tile.row + r] / p.top_k : p.token_rows;
      }
    }
    __device__ __forceinline__ void load(const GatheredGemmParams& p, const GemmShared<C>& shared, int k,
                                         int slot) const {
#pragma unroll
      for (int i = 0; i < kShare; ++i) {
        const int r = lane_id() + 32 * i;
        if (C.block_m % 32 == 0 || r < C.block_m)
          hopper::tma_load_2d(shared.tokens(slot) + r * C.block_k, &p.gemm.tokens, shared.full(slot),
                              k * C.block_k, token[i]);
      }
    }
  };

  template <GemmConfig C>
  __device__ __forceinline__ void produce_gathered(const GatheredGemmParams& p, const GemmShared<C>& shared,
                                                   TileWalk<C.block_m> walk) {
    const bool leader = hopper::elect_one();
    const hopper::L2Hint once = hopper::l2_evict_first();
    const int k_blocks = k_blocks_of<C>(p.gemm);
    int early = load_early<C>(p.gemm, shared, walk, k_blocks, leader, once);
    hopper::grid_wait();  // tokens and their scales are the kernel in front's
    RingPlace<C.stages> ring;
    Tile tile;
    while (walk.next(tile)) {
      hopper::at_tile(tile.expert, tile.row, tile.panel);
      TileLoader<C> load(p.gemm, shared, once, tile);
      const RowGather<C> gather(p, tile);
      for (int k = 0; k < k_blocks; ++k, ring.advance()) {
        hopper::at_k_block(k, ring.slot);
        const bool announced = early > 0;
        if (announced) --early;
        // One branch for all that the leader issues: as two, ptxas made the second one a copy without
        // predicate, which the other lanes issue as well when they leave the wait before the leader
        // (ci/machine_code.py).
        if (leader) {
          if (!announced) {
            hopper::mbar_wait(shared.empty(ring.slot),
                              ring.phase ^ 1);  // the first time around passes at once
            load.weights(k, ring.slot);
          }
          load.scales_of(ring.slot);
        }
        hopper::warp_sync();  // the stage is free and its bytes are announced
        gather.load(p, shared, k, ring.slot);
      }
      hopper::warp_sync();
    }
    hopper::grid_launch_dependents();
  }

  template <GemmConfig C>
  struct GatheredGemm {
    using Params = GatheredGemmParams;
    static __device__ __forceinline__ void run(const GatheredGemmParams& p) {
      static_assert(C.kind != GemmKind::normal_mma);
      const GemmShared<C> shared{hopper::dynamic_smem()};
      open_pipeline<C>(p.gemm, shared);
      const TileWalk<C.block_m> walk(p.gemm, shared.block_start(), ceil_div(p.gemm.n, C.block_n));
      const int warp = int(threadIdx.x) / 32;
      if (warp >= C.math_warps()) {
        if constexpr (C.moves_registers()) hopper::setmaxnreg_dec<40>();
        if (warp == C.math_warps()) produce_gathered<C>(p, shared, walk);
      } else {
        if constexpr (C.moves_registers()) hopper::setmaxnreg_inc<232>();
        multiply_tiles<C>(p.gemm, shared, walk);
      }
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
