// What do the parts of a persistent kernel cost that surround its main loop? Each family's own pieces without
// one product: the ring's set-up, the tile list, the copies of one k-block, the epilogue. With an empty list
// a kernel ends after its first look at it. p.iterations epilogues a tile; out[block] = {cycles of them, ns
// of them}.
#include "device/calibrate/calibrate_params.hpp"
#include "device/hopper/ptx_measure.cuh"
#include "device/kernels/grouped_gemm.cuh"
#include "device/kernels/grouped_mma.cuh"
#include "device/kernels/variants.hpp"

namespace moe::device {
namespace {

using namespace hopper;

__device__ __forceinline__ void report(const CalibrateParams& p, std::uint64_t cycles, std::uint64_t ns) {
  if (threadIdx.x != 0) return;
  p.out[4 * blockIdx.x] = sm_cycles() - cycles;
  p.out[4 * blockIdx.x + 1] = nanoseconds() - ns;
}

/// Stages of a tile are awaited and given back; what they hold becomes the accumulators.
template <GemmConfig C, int R>
__device__ __forceinline__ void take_stages(float (&acc)[R], const GemmShared<C>& shared,
                                            RingPlace<C.stages>& ring, int k_blocks) {
  for (int k = 0; k < k_blocks; ++k, ring.advance()) {
    mbar_wait(shared.full(ring.slot), ring.phase);
#pragma unroll
    for (int i = 0; i < R; ++i) acc[i] = add_rn(acc[i], float(shared.weights(ring.slot)[threadIdx.x]));
    warp_sync();
    if (lane_id() == 0) mbar_arrive(shared.empty(ring.slot));
  }
}

template <GemmConfig C>
__device__ __forceinline__ void wgmma_tiles(const CalibrateParams& p, const GemmShared<C>& shared,
                                            TileWalk<C.block_m> walk) {
  const WarpgroupShare<C> share{int(threadIdx.x) / 128};
  const bool wide = wide_rows(p.gemm);
  RingPlace<C.stages> ring;
  Tile tile;
  bool have = walk.next(tile);
  grid_wait();
  while (have) {
    Epilogue<C> epilogue;
    epilogue.load(p.gemm, tile, share);
    float acc[C.wgmma_n() / 2] = {};
    take_stages<C>(acc, shared, ring, k_blocks_of<C>(p.gemm));
    const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i)
      epilogue.store(acc, p.gemm, tile, share, shared.patch(share.group), wide);
    report(p, cycles, ns);
    have = walk.next(tile);
  }
}

template <GemmConfig C>
__device__ __forceinline__ void mma_tiles(const CalibrateParams& p, const GemmShared<C>& shared,
                                          TileWalk<C.block_m> walk) {
  constexpr int kFragments = C.block_m / 16, kColumns = C.mma_columns(), kValues = kColumns / 2;
  const int warp = int(threadIdx.x) / 32;
  const bool wide = wide_rows(p.gemm);
  std::uint8_t* patch = shared.patch(0);
  RingPlace<C.stages> ring;
  Tile tile;
  bool have = walk.next(tile);
  grid_wait();
  while (have) {
    const int column = tile.panel * C.block_n;
    Finish<C, kColumns> finish[kFragments];
#pragma unroll
    for (int f = 0; f < kFragments; ++f)
      finish[f].load(p.gemm, tile.expert, tile.row + 16 * f, tile.rows - 16 * f, column + warp * kColumns);
    const int destination = patch_destination<C.block_m>(p.gemm, tile.row, tile.rows);
    float acc[kFragments * kValues] = {};
    take_stages<C>(acc, shared, ring, k_blocks_of<C>(p.gemm));
    const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i) {
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
        float part[kValues];
#pragma unroll
        for (int v = 0; v < kValues; ++v) part[v] = acc[f * kValues + v];
        finish[f].apply(part, p.gemm.bias != nullptr);
        put_fragment<false, 0, kValues>(patch + 16 * f * C.patch_pitch() + warp * kColumns * 2,
                                        C.patch_pitch(), part);
      }
      named_barrier(1, 128);
      store_patch<C.block_m, C.block_n>(p.gemm, patch, C.patch_pitch(), destination, column, wide);
      named_barrier(1, 128);
    }
    report(p, cycles, ns);
    have = walk.next(tile);
  }
}

template <GemmConfig C>
__device__ __forceinline__ void structure(const CalibrateParams& p) {
  const GemmShared<C> shared{dynamic_smem()};
  open_pipeline<C>(p.gemm, shared);
  const TileWalk<C.block_m> walk(p.gemm, shared.block_start(), ceil_div(p.gemm.n, C.block_n));
  const int warp = int(threadIdx.x) / 32;
  if (warp >= C.math_warps()) {
    if constexpr (C.moves_registers()) setmaxnreg_dec<40>();
    if (warp == C.math_warps()) produce<C>(p.gemm, shared, walk);
    return;
  }
  if constexpr (C.moves_registers()) setmaxnreg_inc<232>();
  if constexpr (C.kind == GemmKind::normal_mma)
    mma_tiles<C>(p, shared, walk);
  else
    wgmma_tiles<C>(p, shared, walk);
}

}  // namespace

// The families' configurations are those of lines of variants.hpp.
#define MOE_STRUCTURE(NAME, VARIANT)                                          \
  extern "C" __global__ void __launch_bounds__(kVariants[VARIANT].threads, 1) \
      NAME(const __grid_constant__ CalibrateParams p) {                       \
    structure<kVariants[VARIANT].gemm>(p);                                    \
  }
MOE_STRUCTURE(structure_swap_ab_8, 0)
MOE_STRUCTURE(structure_swap_ab_16, 1)
MOE_STRUCTURE(structure_swap_ab_32, 2)
MOE_STRUCTURE(structure_swap_ab_64, 3)
MOE_STRUCTURE(structure_swap_ab_128, 4)
MOE_STRUCTURE(structure_normal_64, 10)
MOE_STRUCTURE(structure_normal_128, 11)
MOE_STRUCTURE(structure_mma_16, 14)
MOE_STRUCTURE(structure_mma_32, 15)

}  // namespace moe::device
