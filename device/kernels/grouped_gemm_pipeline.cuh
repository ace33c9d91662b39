// How do operands reach the math warps of a grouped GEMM? A ring of stages in shared memory, each one
// k-block: 128 weight rows and block_m token rows of 128 bytes, swizzled, and for block scales block_m token
// scales.
//   full[s]:  the producer's announcement (1 arrival) and the bytes of its copies
//   empty[s]: one arrival a math warp, after it waited for its last read of the stage
// The producer warp runs ahead over tile borders, so that an epilogue does not stop the copies.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_config.hpp"
#include "device/kernels/tile_schedule.cuh"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Addresses in shared memory; `slot` is a stage of the ring.
  template <GemmConfig C>
  struct GemmShared {
    std::uint8_t* base;

    __device__ __forceinline__ std::uint8_t* weights(int slot) const { return base + slot * C.stage_bytes(); }
    __device__ __forceinline__ std::uint8_t* tokens(int slot) const {
      return weights(slot) + C.weights_bytes();
    }
    __device__ __forceinline__ float* token_scales(int slot) const {
      return reinterpret_cast<float*>(base + C.scales_offset() + slot * C.scales_bytes());
    }
    __device__ __forceinline__ std::uint8_t* patch(int group) const {
      return base + C.patch_offset() + group * C.patch_bytes();
    }
    __device__ __forceinline__ std::uint64_t* full(int slot) const {
      return reinterpret_cast<std::uint64_t*>(base + C.barrier_offset()) + slot;
    }
    __device__ __forceinline__ std::uint64_t* empty(int slot) const { return full(C.stages + slot); }
    __device__ __forceinline__ std::int32_t* block_start() const {
      return reinterpret_cast<std::int32_t*>(base + C.block_start_offset());
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
        phase ^= 1;
      }
    }
  };

  __device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

  /// Barriers and the copy of block_start, which is older than the kernel in front. All threads call it
  /// first.
  template <GemmConfig C>
  __device__ __forceinline__ void open_pipeline(const GroupedGemmParams& p, const GemmShared<C>& shared) {
    static_assert(C.tokens_bytes() % 1024 == 0 && C.scales_bytes() % 16 == 0 && C.patch_offset() % 16 == 0);
    if (threadIdx.x == 0) {
      hopper::prefetch_map(&p.weights);
      hopper::prefetch_map(&p.tokens);
      for (int s = 0; s < C.stages; ++s) {
        hopper::mbar_init(shared.full(s), 1);
        hopper::mbar_init(shared.empty(s), C.math_warps());
      }
      hopper::fence_mbar_init();
    }
    for (int e = int(threadIdx.x); e <= p.experts; e += C.threads())
      shared.block_start()[e] = p.block_start[e];
    hopper::cta_sync();
  }

  /// Announces k-block k of a tile in a stage and starts the copy of its weights.
  template <GemmConfig C>
  __device__ __forceinline__ void load_weights(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                               const Tile& tile, int k, int slot) {
    hopper::mbar_arrive_expect_tx(shared.full(slot), C.load_bytes());
    hopper::tma_load_2d(shared.weights(slot), &p.weights, shared.full(slot), k * C.block_k,
                        tile.expert * p.n + tile.panel * C.block_n, hopper::l2_evict_first());
  }

  /// Fills the ring with the weights of the CTA's first k-blocks, which do not depend on the kernel in front;
  /// returns how many k-blocks that are.
  template <GemmConfig C>
  __device__ __forceinline__ int load_first_weights(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                                    TileWalk<C.block_m> walk, int k_blocks, bool leader) {
    int filled = 0;
    Tile tile;
    while (filled < C.stages && walk.next(tile)) {
      const int count = k_blocks < C.stages - filled ? k_blocks : C.stages - filled;
      if (leader) {
        for (int k = 0; k < count; ++k) load_weights<C>(p, shared, tile, k, filled + k);
      }
      filled += count;
    }
    return filled;
  }

  /// The producer warp: all copies of all tiles of this CTA, then the permission for the kernel behind to
  /// start.
  template <GemmConfig C>
  __device__ __forceinline__ void produce(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                          TileWalk<C.block_m> walk) {
    const bool leader = hopper::elect_one();
    const int k_blocks = ceil_div(p.k, C.block_k);
    int filled = load_first_weights<C>(p, shared, walk, k_blocks, leader);
    hopper::grid_wait();  // tokens and their scales are the kernel in front's
    RingPlace<C.stages> ring;
    Tile tile;
    while (walk.next(tile)) {
      if (leader) {
        const float* scales = p.a_scale + tile.row;
        for (int k = 0; k < k_blocks; ++k) {
          std::uint64_t* full = shared.full(ring.slot);
          if (filled > 0) {
            --filled;
          } else {
            hopper::mbar_wait(shared.empty(ring.slot), ring.phase ^ 1);
            load_weights<C>(p, shared, tile, k, ring.slot);
          }
          hopper::tma_load_2d(shared.tokens(ring.slot), &p.tokens, full, k * C.block_k, tile.row);
          if constexpr (C.block_scales()) {
            hopper::bulk_load(shared.token_scales(ring.slot), scales, C.scales_bytes(), full);
            scales += p.a_scale_ld;
          }
          ring.advance();
        }
      }
      hopper::warp_sync();
    }
    hopper::grid_launch_dependents();
  }

  /// The weight scales of a tile's k-blocks, for block scales: lane i holds k-block i of each 32 and the next
  /// 32 are on their way, over tile borders too, so that no k-block waits for global memory.
  class WeightScales {
   public:
    __device__ __forceinline__ WeightScales(const GroupedGemmParams& p, int panels, int k_blocks)
        : w_scale_(p.w_scale), panels_(panels), k_blocks_(k_blocks), lane_(int(threadIdx.x) % 32) {}

    /// Starts loading k-blocks first .. first+31 of `tile`.
    __device__ __forceinline__ void prefetch(const Tile& tile, int first) {
      const int k = first + lane_;
      const float* row = w_scale_ + (std::int64_t(tile.expert) * panels_ + tile.panel) * k_blocks_;
      next_ = k < k_blocks_ ? row[k] : 0.0f;
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
      return hopper::as_float(hopper::shfl_idx(hopper::as_bits(current_), k % 32));
    }

   private:
    const float* w_scale_;
    int panels_, k_blocks_, lane_;
    float current_ = 0.0f, next_ = 0.0f;
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
