// How do operands reach the math warps of a grouped GEMM? A ring of stages in shared memory, each one
// k-block: block_n weight rows and block_m token rows of 128 bytes, swizzled, and for block scales block_m
// token scales.
//   full[s]:  the producer's announcement (1 arrival) and the bytes of its copies
//   empty[s]: one arrival a math warp, after it waited for its last read of the stage
// The producer warp runs ahead over tile borders, so that an epilogue does not stop the copies.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_config.hpp"
#include "device/kernels/tile_schedule.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Addresses in shared memory; `slot` is a stage of the ring.
  template <GemmConfig C>
  struct GemmShared {
    std::uint8_t* base;

    __device__ __forceinline__ std::uint8_t* weights(int slot) const {
      slot = planted(Fault::stages_overlap, slot == C.stages - 1 ? slot - 1 : slot, slot);
      return base + planted(Fault::tiles_misaligned, 128, 0) + slot * C.stage_bytes();
    }
    __device__ __forceinline__ std::uint8_t* tokens(int slot) const {
      return weights(slot) + C.weights_bytes();
    }
    __device__ __forceinline__ float* token_scales(int slot) const {
      return reinterpret_cast<float*>(base + C.scales_offset() + slot * C.scales_bytes());
    }
    __device__ __forceinline__ std::uint8_t* patch(int group) const {
      return base + C.patch_offset() + planted(Fault::patches_overlap, 0, group) * C.patch_bytes();
    }
    __device__ __forceinline__ std::uint64_t* full(int slot) const {
      return reinterpret_cast<std::uint64_t*>(base + C.barrier_offset()) + slot;
    }
    __device__ __forceinline__ std::uint64_t* empty(int slot) const { return full(C.stages + slot); }
    __device__ __forceinline__ std::int32_t* block_start() const {
      return reinterpret_cast<std::int32_t*>(base + C.block_start_offset()) -
             planted(Fault::block_start_over_barriers, 2, 0);
    }
  };

  /// A place in the ring; the phase flips each time around.
  template <int Stages>
  struct RingPlace {
    int slot = 0;
    std::uint32_t phase = 0;
    __device__ __forceinline__ void advance() {
      if (++slot == Stages) {
        slot = 0;
        if (!planted(Fault::phase_never_flips)) phase ^= 1;
      }
    }
  };

  __device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

  template <GemmConfig C>
  __device__ __forceinline__ int k_blocks_of(const GroupedGemmParams& p) {
    return planted(Fault::k_tail_dropped, p.k / C.block_k, ceil_div(p.k, C.block_k));
  }

  template <GemmConfig C>
  __device__ __forceinline__ void init_barriers(const GemmShared<C>& shared) {
    for (int s = 0; s < C.stages; ++s) {
      hopper::mbar_init(shared.full(s), planted(Fault::full_counts_two, 2, 1));
      hopper::mbar_init(shared.empty(s),
                        planted(Fault::empty_counts_one_less, C.math_warps() - 1, C.math_warps()));
    }
    if (!planted(Fault::init_not_fenced)) hopper::fence_mbar_init();
  }

  /// Barriers and the copy of block_start, which is older than the kernel in front. All threads call it
  /// first.
  template <GemmConfig C>
  __device__ __forceinline__ void open_pipeline(const GroupedGemmParams& p, const GemmShared<C>& shared) {
    static_assert(C.tokens_bytes() % 1024 == 0 && C.scales_bytes() % 16 == 0 && C.patch_offset() % 16 == 0);
    if (threadIdx.x == 0) {
      hopper::prefetch_map(&p.weights);
      hopper::prefetch_map(&p.tokens);
      if (!planted(Fault::initialised_behind_barrier)) init_barriers(shared);
    }
    if (planted(Fault::barrier_initialised_twice) && threadIdx.x == 32) hopper::mbar_init(shared.full(0), 1);
    for (int e = int(threadIdx.x); e <= p.experts - planted(Fault::block_start_copied_short, 1, 0);
         e += C.threads())
      shared.block_start()[e] = p.block_start[e];
    hopper::cta_sync();
    if (planted(Fault::initialised_behind_barrier) && threadIdx.x == 0) init_barriers(shared);
  }

  /// The copies of one tile's k-blocks into the ring.
  template <GemmConfig C>
  struct TileLoader {
    const GroupedGemmParams& p;
    const GemmShared<C>& shared;
    hopper::L2Hint once;
    int weight_row;
    const float* scales;  // of the next k-block's tokens

    __device__ __forceinline__ TileLoader(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                          hopper::L2Hint once, const Tile& tile)
        : p(p),
          shared(shared),
          once(once),
          weight_row(tile.expert * p.n + tile.panel * C.block_n),
          scales(p.a_scale + tile.row) {}

    /// Announces the k-block and starts the copy of its weights.
    __device__ __forceinline__ void weights(int k, int slot) const {
      hopper::mbar_arrive_expect_tx(shared.full(slot),
                                    C.load_bytes() + planted(Fault::expects_16_bytes_more, 16, 0) -
                                        planted(Fault::expects_scales_not, C.scales_bytes(), 0));
      if (planted(Fault::producer_arrives_twice)) hopper::mbar_arrive(shared.full(slot));
      hopper::tma_load_2d(shared.weights(slot), &p.weights, shared.full(slot), k * C.block_k, weight_row,
                          once);
    }
    __device__ __forceinline__ void tokens(int k, int slot, const Tile& tile) {
      hopper::tma_load_2d(shared.tokens(slot), &p.tokens,
                          shared.full(planted(Fault::copy_signals_next_stage, (slot + 1) % C.stages, slot)),
                          k * C.block_k, tile.row);
      scales_of(slot);
    }
    /// The next k-block's scales of the tokens.
    __device__ __forceinline__ void scales_of(int slot) {
      if constexpr (C.block_scales()) {
        hopper::bulk_load(shared.token_scales(slot), scales, C.scales_bytes(), shared.full(slot));
        if (!planted(Fault::token_scale_not_advanced)) scales += p.a_scale_ld;
      }
    }
  };

  /// Starts the copies of the weights of the CTA's first early_k_blocks, which do not depend on the kernel in
  /// front; returns how many k-blocks that are.
  template <GemmConfig C>
  __device__ __forceinline__ int load_early(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                            TileWalk<C.block_m> walk, int k_blocks, bool leader,
                                            hopper::L2Hint once) {
    const int most = p.early_k_blocks < C.stages ? p.early_k_blocks : C.stages;
    int early = 0;
    Tile tile;
    while (early < most && walk.next(tile)) {
      const TileLoader<C> load(p, shared, once, tile);
      const int count = k_blocks < most - early ? k_blocks : most - early;
      hopper::at_tile(tile.expert, tile.row, tile.panel);
      if (leader) {
        for (int k = 0; k < count; ++k) {
          hopper::at_k_block(k, early + k);
          load.weights(k, early + k);
        }
      }
      early += count;
    }
    return early;
  }

  /// The producer warp: all copies of all tiles of this CTA, then the permission for the kernel behind to
  /// start.
  template <GemmConfig C>
  __device__ __forceinline__ void produce(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                          TileWalk<C.block_m> walk) {
    bool leader = hopper::elect_one();
    if (planted(Fault::two_leaders)) leader = leader || threadIdx.x % 32 == 9;
    const hopper::L2Hint once = hopper::l2_evict_first();
    const int k_blocks = k_blocks_of<C>(p);
    int early = load_early<C>(p, shared, walk, k_blocks, leader, once);
    if (!planted(Fault::gemm_grid_not_awaited))
      hopper::grid_wait();  // tokens and their scales are the kernel in front's
    RingPlace<C.stages> ring;
    Tile tile;
    while (walk.next(tile)) {
      hopper::at_tile(tile.expert, tile.row, tile.panel);
      if (leader) {
        TileLoader<C> load(p, shared, once, tile);
        int k = 0;
        for (; early > 0 && k < k_blocks; ++k, --early, ring.advance()) {
          hopper::at_k_block(k, ring.slot);
          load.tokens(k, ring.slot, tile);
        }
        for (; k < k_blocks; ++k, ring.advance()) {
          hopper::at_k_block(k, ring.slot);
          if (planted(Fault::copied_before_empty)) load.weights(k, ring.slot);
          // the first time around passes at once
          if (!planted(Fault::empty_not_awaited))
            hopper::mbar_wait(shared.empty(ring.slot),
                              ring.phase ^ planted(Fault::producer_parity_not_inverted, 0u, 1u));
          if (!planted(Fault::copied_before_empty)) load.weights(k, ring.slot);
          load.tokens(k, ring.slot, tile);
        }
      }
      hopper::warp_sync();
    }
    hopper::grid_launch_dependents();
  }

  /// The weight scales of a tile's k-blocks, for block scales: lane i holds k-block i of each 32 and the next
  /// 32 are on their way, over tile borders too, so that no k-block waits for global memory.
  template <int BlockN>
  class WeightScales {
   public:
    __device__ __forceinline__ WeightScales(const GroupedGemmParams& p, int k_blocks)
        : w_scale_(p.w_scale), rows_(ceil_div(p.n, 128)), k_blocks_(k_blocks), lane_(int(threadIdx.x) % 32) {}

    /// Starts loading k-blocks first .. first+31 of `tile`.
    __device__ __forceinline__ void prefetch(const Tile& tile, int first) {
      const int k = first + lane_;
      const float* row =
          w_scale_ +
          (std::int64_t(planted(Fault::weight_scale_of_first_expert, 0, tile.expert)) * rows_ +
           planted(Fault::weight_scale_of_gate_for_up, tile.panel % (rows_ / 2), tile.panel * BlockN / 128)) *
              k_blocks_;
      next_ = k < k_blocks_ + planted(Fault::weight_scales_read_past_end, 1, 0) ? row[k] : 0.0f;
    }
    /// The scale of k-block k of `tile`; `following` is the tile after it, `more` whether there is one.
    __device__ __forceinline__ float at(int k, const Tile& tile, const Tile& following, bool more) {
      if (k % 32 == 0) {
        current_ = next_;
        if (k + 32 < k_blocks_)
          prefetch(tile, k + 32);
        else if (more)
          prefetch(following, 0);
      }
      return hopper::as_float(
          hopper::shfl_idx(hopper::as_bits(current_), planted(Fault::weight_scale_not_advanced, 0, k % 32)));
    }

   private:
    const float* w_scale_;
    int rows_, k_blocks_, lane_;  // rows of scales an expert
    float current_ = 0.0f, next_ = 0.0f;
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
