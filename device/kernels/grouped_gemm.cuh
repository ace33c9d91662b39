// Contract: grouped FP8 GEMM of GroupedGemmParams for kinds swap_ab and normal_wgmma; grid = any number of
// CTAs >= 1 (min(tiles, SMs) is best), config.threads() threads, config.shared_bytes() of shared memory.
// Pipeline of a CTA, one or two warpgroups of math warps and one producer warp:
//   1. the producer copies k-blocks into the ring, tile after tile; the first stages' weights before it waits
//   for the kernel in front
//   2. a warpgroup waits for a stage, issues four wgmma of k 32 that start from zero, waits for them, gives
//   the stage back
//   3. it promotes the k-block: block scales  acc = fma(a_scale * w_scale, part, acc);  flat  acc = acc +
//   part
//   4. after the last k-block: flat scales, bias, one rounding to bf16, through its own patch of shared
//   memory to `out`
// swap_ab: M = weights (64 of the tile's 128 a warpgroup), N = tokens.  normal_wgmma, block_m 64: M = tokens,
// N = 64 of the 128 weight rows; block_m 128: M = 64 of the tokens, N = 128 weight rows. block_n 64 has one
// warpgroup. All give the same bits.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_epilogue.cuh"
#include "device/kernels/grouped_gemm_pipeline.cuh"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// What one warpgroup computes of a tile: tokens and columns of its share, and where its operands lie in a
  /// stage.
  template <GemmConfig C>
  struct WarpgroupShare {
    static constexpr int N = C.wgmma_n();
    static constexpr bool kSplitsTokens = !C.swap_ab() && C.block_m == 128;
    int group;  // 0 or 1

    __device__ __forceinline__ int first_token() const { return kSplitsTokens ? 64 * group : 0; }
    __device__ __forceinline__ int first_column() const { return kSplitsTokens ? 0 : 64 * group; }
    __device__ __forceinline__ const std::uint8_t* tokens(const GemmShared<C>& s, int slot) const {
      return s.tokens(slot) + first_token() * C.block_k;
    }
    __device__ __forceinline__ const std::uint8_t* weights(const GemmShared<C>& s, int slot) const {
      return s.weights(slot) + first_column() * C.block_k;
    }
  };

  /// The four wgmma of one k-block, from zero, as one committed group. `carry` is for a planted fault alone.
  template <GemmConfig C>
  __device__ __forceinline__ void issue_k_block(float(&part)[C.wgmma_n() / 2], const GemmShared<C>& shared,
                                                WarpgroupShare<C> share, int slot, bool carry) {
    const std::uint64_t tokens = hopper::desc_sw128(share.tokens(shared, slot));
    const std::uint64_t weights =
        planted(C.fault, Fault::descriptor_of_other_swizzle,
                hopper::descriptor<hopper::Swizzle::b64>(share.weights(shared, slot)),
                hopper::desc_sw128(share.weights(shared, slot)));
    const std::uint64_t m = C.swap_ab() ? weights : tokens, n = C.swap_ab() ? tokens : weights;
    if constexpr (!planted(C.fault, Fault::wgmma_not_fenced)) hopper::wgmma_fence(part);
    if (!planted(C.fault, Fault::wgmma_skipped_by_a_warp) || threadIdx.x / 32 % 4 != 2)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        hopper::wgmma_e4m3<C.wgmma_n()>(
            part, m + 2 * j + planted(C.fault, Fault::descriptor_a_row_off, 8, 0), n + 2 * j,
            planted(C.fault, Fault::partial_sums_not_promoted, j != 0 || carry, j != 0));
    if constexpr (!planted(C.fault, Fault::wgmma_not_committed)) hopper::wgmma_commit();
  }

  /// a_scale * w_scale of a thread's accumulators in one k-block, read from the stage before it is given
  /// back.
  template <GemmConfig C>
  struct StageScales {
    static constexpr int kCount = C.swap_ab() ? C.block_m / 4 : 2;
    float product[kCount];

    __device__ __forceinline__ void load(const float* a_scale, float w_scale) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int token = C.swap_ab() ? 8 * (i / 2) + 2 * (lane_id() % 4) + i % 2
                                      : int(threadIdx.x) / 32 % 4 * 16 + lane_id() / 4 + 8 * i;
        const float scale =
            planted(Fault::token_scale_truncated,
                    hopper::as_float(hopper::as_bits(a_scale[token]) & 0xFF800000u), a_scale[token]);
        product[i] = hopper::mul_rn(scale, w_scale);
      }
    }
    __device__ __forceinline__ float at(int i) const {  // of accumulator i
      return product[C.swap_ab() ? i / 4 * 2 + i % 2 : i / 2 % 2];
    }
  };

  /// A k-block between its wgmma and its promotion.
  template <GemmConfig C>
  struct KBlock {
    static constexpr int R = C.wgmma_n() / 2;
    float part[R];
    StageScales<C> scales;
    int slot;
    bool carry = false;  // for planted faults alone, as the next two
    float late_w_scale;
    const float* late_scales;

    __device__ __forceinline__ void start(const GemmShared<C>& shared, WarpgroupShare<C> share,
                                          RingPlace<C.stages>& ring, float w_scale) {
      slot = ring.slot;
      if (!planted(Fault::full_not_awaited))
        hopper::mbar_wait(shared.full(planted(Fault::next_stage_awaited, (slot + 1) % C.stages, slot)),
                          ring.phase);
      if constexpr (planted(C.fault, Fault::stage_rewritten_without_proxy_fence))
        rewrite_stage(share.weights(shared, slot), share.group);
      issue_k_block<C>(part, shared, share, slot, carry);
      if constexpr (planted(C.fault, Fault::stage_given_back_in_flight)) {
        if (lane_id() == 0) hopper::mbar_arrive(shared.empty(slot));
      }
      if constexpr (planted(C.fault, Fault::accumulator_touched_in_flight))
        part[0] = hopper::mul_rn(part[0], 1.0f);
      if (planted(Fault::scales_read_after_release)) {
        late_w_scale = w_scale;
        late_scales = shared.token_scales(slot) + share.first_token();
      }
      if constexpr (C.block_scales()) scales.load(shared.token_scales(slot) + share.first_token(), w_scale);
      ring.advance();
    }
    /// Waits until all but the `Left` last k-blocks are multiplied, gives the stage back, promotes.
    template <int Left>
    __device__ __forceinline__ void finish(float (&acc)[R], const GemmShared<C>& shared) {
      if constexpr (!planted(C.fault, Fault::wgmma_not_awaited))
        hopper::wgmma_wait<planted(C.fault, Fault::wgmma_left_in_flight, Left + 1, Left)>(part);
      hopper::warp_sync();  // all lanes have read their scales
      if (lane_id() == 0 && !planted(C.fault, Fault::stage_given_back_in_flight) &&
          !planted(Fault::stage_not_given_back) && !planted(Fault::one_warp_gives_back_for_all))
        hopper::mbar_arrive(shared.empty(slot));
      if (planted(Fault::stage_given_back_twice) && lane_id() == 0) hopper::mbar_arrive(shared.empty(slot));
      if (planted(Fault::one_warp_gives_back_for_all)) give_back_for_all(shared.empty(slot));
      if (planted(Fault::scales_read_after_release)) scales.load(late_scales, late_w_scale);
      if constexpr (planted(C.fault, Fault::partial_sums_not_promoted)) carry = true;
#pragma unroll
      for (int i = 0; i < R; ++i) {
        if constexpr (planted(C.fault, Fault::partial_sums_not_promoted)) {
          acc[i] = part[i];
          continue;
        }
        if constexpr (C.block_scales())
          acc[i] = hopper::fma_rn(scales.at(i), part[i], acc[i]);
        else
          acc[i] = hopper::add_rn(acc[i], part[i]);
      }
    }
  };

  /// Steps 2 and 3 for the k-blocks of a tile.
  template <GemmConfig C>
  class Accumulator {
   public:
    static constexpr int R = C.wgmma_n() / 2;

    __device__ __forceinline__ Accumulator(const GemmShared<C>& shared, WarpgroupShare<C> share,
                                           WeightScales<C.block_n> w_scales, int k_blocks)
        : shared_(shared), share_(share), w_scales_(w_scales), k_blocks_(k_blocks) {}

    /// Before the first tile.
    __device__ __forceinline__ void prefetch(const Tile& tile) {
      if constexpr (C.block_scales()) w_scales_.prefetch(tile, 0);
      if (planted(Fault::accumulator_kept_from_tile_before)) keep({});
    }
    /// acc = the tile's sums; `following` is the tile after it, `more` whether there is one.
    __device__ __forceinline__ void run(float (&acc)[R], const Tile& tile, const Tile& following, bool more) {
#pragma unroll
      for (int i = 0; i < R; ++i) acc[i] = planted(Fault::accumulator_kept_from_tile_before, kept_[i], 0.0f);
      if (planted(Fault::ring_restarts_with_tile)) ring_ = {};
      const auto start = [&](KBlock<C>& block, int k) {
        hopper::at_k_block(k, ring_.slot);
        float w_scale = 1.0f;
        if constexpr (C.block_scales()) w_scale = w_scales_.at(k, tile, following, more);
        block.start(shared_, share_, ring_, w_scale);
      };
      KBlock<C> even;
      if (kOverlaps && k_blocks_ >= kLongChain) {
        KBlock<C> odd;
        int k = 1;
        start(even, 0);
#pragma unroll 1
        for (; k + 1 < k_blocks_; k += 2) {
          start(odd, k);
          even.template finish<1>(acc, shared_);
          start(even, k + 1);
          odd.template finish<1>(acc, shared_);
        }
        if (k < k_blocks_) {
          start(odd, k);
          even.template finish<1>(acc, shared_);
          odd.template finish<0>(acc, shared_);
        } else {
          even.template finish<0>(acc, shared_);
        }
        return;
      }
#pragma unroll 1
      for (int k = 0; k < k_blocks_; ++k) {
        start(even, k);
        even.template finish<0>(acc, shared_);
      }
    }

    /// For a planted fault alone: what the next tile begins with.
    __device__ __forceinline__ void keep(const float (&acc)[R]) {
      for (int i = 0; i < R; ++i) kept_[i] = acc[i];
    }

   private:
    /// A second k-block in flight hides the promotion. Measured on an H200: up to 20 % less time at K = 7168
    /// and few tokens where a thread has few scales; more time at K = 256 and where it has many.
    static constexpr bool kOverlaps = StageScales<C>::kCount <= 4 && C.wgmma_n() <= 64;
    static constexpr int kLongChain = 8;

    GemmShared<C> shared_;
    WarpgroupShare<C> share_;
    WeightScales<C.block_n> w_scales_;
    RingPlace<C.stages> ring_;
    int k_blocks_;
    float kept_[R];
  };

  /// Step 4, 64 values along N at a time, so that a patch is never larger than 64 x 64.
  template <GemmConfig C>
  class Epilogue {
   public:
    static constexpr int N = C.wgmma_n(), R = N / 2, kRounds = N > 64 ? 2 : 1, kCount = R / kRounds;

    __device__ __forceinline__ void load(const GroupedGemmParams& p, const Tile& tile,
                                         WarpgroupShare<C> share) {
      const int warp_m = int(threadIdx.x) / 32 % 4 * 16;  // first row along M of this warp's fragment
      const int token = share.first_token(), column = tile.panel * C.block_n + share.first_column();
      finish_.load(p, tile.expert, tile.row + token + (C.swap_ab() ? 0 : warp_m),
                   tile.rows - token - (C.swap_ab() ? 0 : warp_m), column + (C.swap_ab() ? warp_m : 0));
#pragma unroll
      for (int round = 0; round < (C.swap_ab() ? kRounds : 1); ++round)
        destination_[round] = patch_destination<C.patch_rows()>(p, tile.row + token + 64 * round,
                                                                tile.rows - token - 64 * round);
    }

    __device__ __forceinline__ void store(float (&acc)[R], const GroupedGemmParams& p, const Tile& tile,
                                          WarpgroupShare<C> share, std::uint8_t* patch, bool wide) const {
      finish_.apply(acc, p.bias != nullptr);
      const int column = tile.panel * C.block_n + share.first_column();
      put<0>(acc, patch);
      if (planted(Fault::bulk_store_not_awaited) || planted(Fault::bulk_store_not_committed))
        hopper::fence_proxy_async();
      if (!planted(Fault::patch_not_awaited)) meet(share);
      store_patch<C.patch_rows(), 64>(p, patch, C.patch_pitch(), destination_[0], column, wide);
      if (!planted(Fault::patch_reused_without_barrier)) meet(share);  // the patch is free again
      if constexpr (kRounds == 2) {
        put<kCount>(acc, patch);
        if (!planted(Fault::patch_not_awaited)) meet(share);
        store_patch<C.patch_rows(), 64>(p, patch, C.patch_pitch(), destination_[C.swap_ab() ? 1 : 0],
                                        column + (C.swap_ab() ? 0 : 64), wide);
        if (!planted(Fault::patch_reused_without_barrier)) meet(share);
      }
    }

   private:
    /// The four warps that share a patch.
    __device__ __forceinline__ void meet(WarpgroupShare<C> share) const {
      hopper::named_barrier(planted(Fault::barrier_shared_by_groups, 1, 1 + share.group),
                            planted(Fault::barrier_counts_a_warp_more, 160, 128));
    }
    template <int First>
    __device__ __forceinline__ void put(const float (&acc)[R], std::uint8_t* patch) const {
      const int warp_m = int(threadIdx.x) / 32 % 4 * 16;
      put_fragment<C.swap_ab(), First, kCount>(patch + warp_m * (C.swap_ab() ? 2 : C.patch_pitch()),
                                               C.patch_pitch(), acc);
    }

    Finish<C, N> finish_;
    int destination_[kRounds];
  };

  /// The math warps.
  template <GemmConfig C>
  __device__ __forceinline__ void multiply_tiles(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                                 TileWalk<C.block_m> walk) {
    const WarpgroupShare<C> share{int(threadIdx.x) / 128};
    const int k_blocks = k_blocks_of<C>(p);
    const bool wide = wide_rows(p);
    Accumulator<C> accumulator(shared, share, WeightScales<C.block_n>(p, k_blocks), k_blocks);
    Tile tile, following;
    bool have = walk.next(tile);
    if (have) accumulator.prefetch(tile);
    hopper::grid_wait();  // the epilogue reads scales of the kernel in front and writes what may be read
                          // there
    while (have) {
      const bool more = walk.next(following);
      hopper::at_tile(tile.expert, tile.row, tile.panel);
      Epilogue<C> epilogue;
      epilogue.load(p, tile, share);
      float acc[C.wgmma_n() / 2];
      accumulator.run(acc, tile, following, more);
      if (planted(Fault::accumulator_kept_from_tile_before)) accumulator.keep(acc);
      epilogue.store(acc, p, tile, share, shared.patch(share.group), wide);
      tile = following;
      have = more;
    }
  }

  template <GemmConfig C>
  struct GroupedGemm {
    using Params = GroupedGemmParams;
    static __device__ __forceinline__ void run(const GroupedGemmParams& p) {
      static_assert(C.kind != GemmKind::normal_mma);
      const GemmShared<C> shared{hopper::dynamic_smem()};
      open_pipeline<C>(p, shared);
      const int panels = ceil_div(p.n, C.block_n);
      const TileWalk<C.block_m> walk(p, shared.block_start(), panels);
      const int warp = int(threadIdx.x) / 32;
      if (warp >= C.math_warps()) {
        if constexpr (C.moves_registers()) hopper::setmaxnreg_dec<40>();
        if (warp == C.math_warps()) produce<C>(p, shared, walk);
      } else {
        if constexpr (C.moves_registers()) hopper::setmaxnreg_inc<232>();
        multiply_tiles<C>(p, shared, walk);
      }
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
