// Contract: as grouped_gemm.cuh, kind normal_mma: the layout that Swap-AB replaces at small block_m. Tokens
// are the rows of f16 mma.sync and FP8 is converted in registers, because sm_90 has no mma.sync for e4m3.
// Pipeline of a CTA, four math warps of 32 (block_n 64: 16) weight columns each and one producer warp:
//   1. the producer copies k-blocks into the ring, tile after tile (grouped_gemm_pipeline.cuh)
//   2. a math warp waits for a stage; for each 16 bytes of k a lane loads four consecutive bytes of a row and
//   makes of
//      them the two f16 pairs of its fragment. That permutes k inside the 16, the same way for both operands.
//   3. the chain of eight m16n8k16 starts from zero and is promoted as in grouped_gemm.cuh
//   4. flat scales, bias, one rounding to bf16, through a patch of shared memory that the four warps share to
//   `out`
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_epilogue.cuh"
#include "device/kernels/grouped_gemm_pipeline.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  /// Four codes of tile row `row`, bytes 16*chunk + 4*(lane%4) of it, under the 128-byte swizzle, as two f16
  /// pairs.
  __device__ __forceinline__ void load_f16(const std::uint8_t* tile, int row, int chunk, std::uint32_t& lo,
                                           std::uint32_t& hi) {
    const std::uint8_t* at = tile + row * 128 +
                             ((chunk ^ planted(Fault::mma_swizzle_forgotten, 0, row % 8)) * 16) +
                             lane_id() % 4 * 4;
    hopper::e4m3x4_to_f16(*reinterpret_cast<const std::uint32_t*>(at), lo, hi);
  }

  /// Step 2 and the chain of step 3: part = tokens * weights^T over one k-block, from zero.
  template <int Fragments, int Tiles>
  __device__ __forceinline__ void multiply_k_block(float(&part)[Fragments][Tiles][4],
                                                   const std::uint8_t* tokens, const std::uint8_t* weights) {
    const int g = lane_id() / 4;
#pragma unroll
    for (int f = 0; f < Fragments; ++f)
#pragma unroll
      for (int t = 0; t < Tiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) part[f][t][i] = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < 8; ++chunk) {
      std::uint32_t a[Fragments][4], b[Tiles][2];
#pragma unroll
      for (int f = 0; f < Fragments; ++f) {
        load_f16(tokens, 16 * f + g, chunk, a[f][0], a[f][2]);
        load_f16(tokens, 16 * f + g + 8, chunk, a[f][1], a[f][3]);
      }
#pragma unroll
      for (int t = 0; t < Tiles; ++t) load_f16(weights, 8 * t + g, chunk, b[t][0], b[t][1]);
#pragma unroll
      for (int f = 0; f < Fragments; ++f)
#pragma unroll
        for (int t = 0; t < Tiles; ++t)
          if (!planted(Fault::mma_skipped_by_a_lane) || lane_id() != 5)
            hopper::mma_f16(part[f][t], a[f], b[t]);
    }
  }

  /// The rest of step 3. `a_scale` are the stage's token scales.
  template <GemmConfig C, int Fragments, int Tiles>
  __device__ __forceinline__ void promote(float(&acc)[Fragments][Tiles * 4],
                                          const float(&part)[Fragments][Tiles][4],
                                          const float(&product)[Fragments][2]) {
#pragma unroll
    for (int f = 0; f < Fragments; ++f)
#pragma unroll
      for (int i = 0; i < Tiles * 4; ++i) {
        const float x = part[f][i / 4][i % 4];
        if constexpr (C.block_scales())
          acc[f][i] = hopper::fma_rn(product[f][i / 2 % 2], x, acc[f][i]);
        else
          acc[f][i] = hopper::add_rn(acc[f][i], x);
      }
  }

  /// All k-blocks of a tile.
  template <GemmConfig C, int Fragments, int Tiles = C.mma_columns() / 8>
  __device__ __forceinline__ void accumulate_mma(
      float(&acc)[Fragments][Tiles * 4], const GemmShared<C>& shared, RingPlace<C.stages>& ring, int k_blocks,
      WeightScales<C.block_n>& w_scales, const Tile& tile, const Tile& following, bool more) {
    const int warp = int(threadIdx.x) / 32;
#pragma unroll
    for (int f = 0; f < Fragments; ++f)
#pragma unroll
      for (int i = 0; i < Tiles * 4; ++i) acc[f][i] = 0.0f;
#pragma unroll 1
    for (int k = 0; k < k_blocks; ++k) {
      float w_scale = 1.0f;
      if constexpr (C.block_scales()) w_scale = w_scales.at(k, tile, following, more);
      hopper::at_k_block(k, ring.slot);
      if (!planted(Fault::mma_full_not_awaited)) hopper::mbar_wait(shared.full(ring.slot), ring.phase);
      float product[Fragments][2] = {};
      if constexpr (C.block_scales()) {
        const float* a_scale = shared.token_scales(ring.slot);
#pragma unroll
        for (int i = 0; i < 2 * Fragments; ++i)
          product[i / 2][i % 2] = hopper::mul_rn(a_scale[lane_id() / 4 + 8 * i], w_scale);
      }
      if (planted(Fault::mma_stage_given_back_early) && lane_id() == 0)
        hopper::mbar_arrive(shared.empty(ring.slot));
      float part[Fragments][Tiles][4];
      multiply_k_block(part, shared.tokens(ring.slot),
                       shared.weights(ring.slot) + warp * C.mma_columns() * C.block_k);
      if (!planted(Fault::mma_stage_given_back_by_one_lane))
        hopper::warp_sync();  // all lanes have read the stage
      if (lane_id() == 0 && !planted(Fault::mma_stage_given_back_early))
        hopper::mbar_arrive(shared.empty(ring.slot));
      ring.advance();
      promote<C>(acc, part, product);
    }
  }

  template <GemmConfig C>
  __device__ __forceinline__ void multiply_tiles_mma(const GroupedGemmParams& p, const GemmShared<C>& shared,
                                                     TileWalk<C.block_m> walk) {
    constexpr int kFragments = C.block_m / 16, kColumns = C.mma_columns(), kValues = kColumns / 2;
    const int warp = int(threadIdx.x) / 32, k_blocks = k_blocks_of<C>(p);
    const bool wide = wide_rows(p);
    std::uint8_t* patch = shared.patch(0);
    WeightScales<C.block_n> w_scales(p, k_blocks);
    RingPlace<C.stages> ring;
    Tile tile, following;
    bool have = walk.next(tile);
    if (C.block_scales() && have) w_scales.prefetch(tile, 0);
    hopper::grid_wait();  // the epilogue reads scales of the kernel in front and writes what may be read
                          // there
    while (have) {
      const bool more = walk.next(following);
      hopper::at_tile(tile.expert, tile.row, tile.panel);
      const int column = tile.panel * C.block_n;
      Finish<C, kColumns> finish[kFragments];
#pragma unroll
      for (int f = 0; f < kFragments; ++f)
        finish[f].load(p, tile.expert, tile.row + 16 * f, tile.rows - 16 * f, column + warp * kColumns);
      const int destination = patch_destination<C.block_m>(p, tile.row, tile.rows);
      float acc[kFragments][kValues];
      accumulate_mma<C>(acc, shared, ring, k_blocks, w_scales, tile, following, more);
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
        finish[f].apply(acc[f], p.bias != nullptr);
        put_fragment<false, 0, kValues>(patch + 16 * f * C.patch_pitch() + warp * kColumns * 2,
                                        C.patch_pitch(), acc[f]);
      }
      if (!planted(Fault::mma_patch_not_awaited)) hopper::named_barrier(1, 128);
      store_patch<C.block_m, C.block_n>(p, patch, C.patch_pitch(), destination, column, wide);
      if (!planted(Fault::mma_patch_reused_without_barrier))
        hopper::named_barrier(1, 128);  // the patch is free again
      tile = following;
      have = more;
    }
  }

  template <GemmConfig C>
  struct GroupedMma {
    using Params = GroupedGemmParams;
    static __device__ __forceinline__ void run(const GroupedGemmParams& p) {
      static_assert(C.kind == GemmKind::normal_mma && C.block_m % 16 == 0);
      const GemmShared<C> shared{hopper::dynamic_smem()};
      open_pipeline<C>(p, shared);
      const int panels = ceil_div(p.n, C.block_n);
      const TileWalk<C.block_m> walk(p, shared.block_start(), panels);
      if (int(threadIdx.x) / 32 == C.math_warps())
        produce<C>(p, shared, walk);
      else
        multiply_tiles_mma<C>(p, shared, walk);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
