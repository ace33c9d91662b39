// A small warp-specialised GEMM in the style of the real kernels, with faults to plant one at a time.
// warps 0-3: wgmma consumers | warp 4: TMA producer | warp 5: scales, by ordinary stores.
// Each stage: full (TMA bytes + producer + 32 scale lanes), empty (one arrival a consumer warp). Epilogue:
// registers -> shared memory -> bulk store.
#pragma once
#include "device/hopper/hopper.hpp"
#include "tests/device/kernels/pipeline_params.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ std::uint64_t* full_bar(std::uint8_t * smem, int stage) {
    return reinterpret_cast<std::uint64_t*>(smem + kBarriersAt) + stage;
  }
  __device__ __forceinline__ std::uint64_t* empty_bar(std::uint8_t * smem, int stage) {
    return full_bar(smem, kPipelineStages + stage);
  }
  template <Fault F>
  __device__ __forceinline__ std::uint8_t* stage_at(std::uint8_t * smem, int stage) {
    if constexpr (F == Fault::stages_overlap) return smem + (stage == 2 ? 1 : stage) * kStageBytes;
    return smem + stage * kStageBytes + (F == Fault::misaligned_tiles ? 128 : 0);
  }

  template <Fault F>
  __device__ __forceinline__ void produce_tiles(const PipelineParams& p, std::uint8_t* smem) {
    int stage = 0, parity = F == Fault::producer_parity_not_inverted ? 0 : 1;
    for (int i = 0; i < p.tiles * p.k_blocks; ++i) {
      hopper::at_tile(0, i / p.k_blocks * 64, 0);
      hopper::at_k_block(i % p.k_blocks, stage);
      if constexpr (F != Fault::missing_empty_wait) hopper::mbar_wait(empty_bar(smem, stage), parity);
      const int bytes = kStageBytes + (F == Fault::expect_too_few_bytes    ? -1024
                                       : F == Fault::expect_too_many_bytes ? 16
                                                                           : 0);
      hopper::mbar_arrive_expect_tx(full_bar(smem, stage), bytes);
      std::uint8_t* at = stage_at<F>(smem, stage);
      const int k = i % p.k_blocks * 128;
      hopper::tma_load_2d(at, &p.a, full_bar(smem, stage), k, i / p.k_blocks * 64);
      hopper::tma_load_2d(at + 64 * 128, &p.b, full_bar(smem, stage), k, 0);
      if (++stage == kPipelineStages) {
        stage = 0;
        if constexpr (F != Fault::parity_never_flips) parity ^= 1;
      }
    }
  }

  template <Fault F>
  __device__ __forceinline__ void produce_scales(const PipelineParams& p, std::uint8_t* smem, int lane) {
    float* scales = reinterpret_cast<float*>(smem + kScalesAt);
    const int rows = p.tiles * 64, steps = p.tiles * p.k_blocks;
    int stage = 0, parity = 1;
    for (int i = 0; i < steps; ++i) {
      hopper::mbar_wait(empty_bar(smem, stage), parity);
      const float* from = p.scales + i % p.k_blocks * rows + i / p.k_blocks * 64;
      for (int j = lane; j < 64; j += 32) scales[stage * 64 + j] = from[j];
      if (F == Fault::scale_read_past_the_end && i == steps - 1 && lane == 0) scales[stage * 64] = from[64];
      hopper::mbar_arrive(full_bar(smem, stage));
      if (++stage == kPipelineStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }

  /// One k-block: four k32 steps from zero, then acc += scale * part.
  template <Fault F>
  __device__ __forceinline__ void consume(std::uint8_t * smem, int stage, int parity,
                                          float(&acc)[kPipelineN / 2]) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    if constexpr (F != Fault::missing_full_wait) hopper::mbar_wait(full_bar(smem, stage), parity);
    const float* scales =
        reinterpret_cast<const float*>(smem + kScalesAt) + stage * 64 + warp * 16 + lane / 4;
    float low = 0, high = 0;
    if constexpr (F != Fault::scales_read_after_release) low = scales[0], high = scales[8];
    float d[kPipelineN / 2];
    const std::uint64_t a = F == Fault::other_swizzle
                                ? hopper::descriptor<hopper::Swizzle::b64>(stage_at<F>(smem, stage))
                                : hopper::desc_sw128(stage_at<F>(smem, stage));
    const std::uint64_t b = hopper::desc_sw128(stage_at<F>(smem, stage) + 64 * 128);
    if constexpr (F != Fault::missing_wgmma_fence) hopper::wgmma_fence(d);
    if (F != Fault::warp_skips_wgmma || warp != 2)
      for (int j = 0; j < 4; ++j) hopper::wgmma_e4m3<kPipelineN>(d, a + 2 * j, b + 2 * j, j != 0);
    if constexpr (F != Fault::missing_commit) hopper::wgmma_commit();
    if constexpr (F == Fault::stage_released_early)
      if (lane == 0) hopper::mbar_arrive(empty_bar(smem, stage));
    if constexpr (F == Fault::no_final_wait)
      hopper::wgmma_wait<1>(d);
    else if constexpr (F != Fault::missing_wgmma_wait)
      hopper::wgmma_wait<0>(d);
    if constexpr (F == Fault::one_arrival_for_all_warps) {
      if (threadIdx.x == 0)
        for (int i = 0; i < 4; ++i) hopper::mbar_arrive(empty_bar(smem, stage));
    } else if constexpr (F != Fault::stage_released_early) {
      if (lane == 0) hopper::mbar_arrive(empty_bar(smem, stage));
    }
    if constexpr (F == Fault::scales_read_after_release) low = scales[0], high = scales[8];
    for (int i = 0; i < kPipelineN / 2; ++i) acc[i] = hopper::fma_rn((i >> 1 & 1) ? high : low, d[i], acc[i]);
  }

  template <Fault F>
  __device__ __forceinline__ void store_tile(const PipelineParams& p, std::uint8_t* smem, int tile,
                                             const float(&acc)[kPipelineN / 2]) {
    const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
    float* staged = reinterpret_cast<float*>(smem + kOutAt);
    if (thread == 0)
      if constexpr (F != Fault::missing_bulk_wait) hopper::bulk_wait_read<0>();
    hopper::named_barrier(1, 128);
    for (int i = 0; i < kPipelineN / 2; ++i) {
      const int row = warp * 16 + lane / 4 + 8 * (i >> 1 & 1),
                column = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1);
      staged[row * kPipelineN + column] = acc[i];
    }
    if constexpr (F != Fault::missing_proxy_fence) hopper::fence_proxy_async();
    if constexpr (F != Fault::missing_epilogue_barrier)
      hopper::named_barrier(1, F == Fault::barrier_count_too_large ? 160 : 128);
    if (thread == 0) {
      hopper::bulk_store(p.out + tile * 64 * kPipelineN + (F == Fault::store_past_the_end ? kPipelineN : 0),
                         staged, 64 * kPipelineN * 4);
      hopper::bulk_commit();
    }
  }

  template <Fault F>
  __device__ __forceinline__ void extra_faults(const PipelineParams& p, std::uint8_t* smem) {
    const int thread = int(threadIdx.x);
    if constexpr (F == Fault::lane_leaves_warp_sync)
      if (thread != 5) hopper::warp_sync();
    if constexpr (F == Fault::store_to_input)
      if (thread == 0) const_cast<float*>(p.scales)[1] = 0.0f;
    if constexpr (F == Fault::shared_read_out_of_bounds)
      if (thread == 0) p.out[0] = *reinterpret_cast<const float*>(smem + kPipelineShared);
    if constexpr (F == Fault::misaligned_load)
      if (thread == 0)  // a scalar: compilers take larger accesses apart
        *reinterpret_cast<std::uint64_t*>(p.out) = *reinterpret_cast<const std::uint64_t*>(smem + kOutAt + 4);
    if constexpr (F == Fault::uninitialised_read)
      if (thread == 0) p.out[0] = *reinterpret_cast<const float*>(smem + kOutAt + 64 * kPipelineN * 4);
  }

  template <Fault F>
  __global__ void __launch_bounds__(kPipelineThreads)
      pipeline_kernel(const __grid_constant__ PipelineParams p) {
    std::uint8_t* smem = hopper::dynamic_smem();
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kPipelineStages; ++s) {
        hopper::mbar_init(full_bar(smem, s), 1 + 32);
        hopper::mbar_init(empty_bar(smem, s), F == Fault::empty_count_too_small ? 3 : 4);
      }
      if constexpr (F != Fault::init_without_fence) hopper::fence_mbar_init();
    }
    if constexpr (F != Fault::init_without_barrier) hopper::cta_sync();
    if (warp == 4) {
      if (hopper::elect_one()) produce_tiles<F>(p, smem);
    } else if (warp == 5) {
      produce_scales<F>(p, smem, lane);
    } else {
      int stage = 0, parity = 0;
      extra_faults<F>(p, smem);
      for (int tile = 0; tile < p.tiles; ++tile) {
        float acc[kPipelineN / 2] = {};
        hopper::at_tile(0, tile * 64, 0);
        for (int k = 0; k < p.k_blocks; ++k) {
          hopper::at_k_block(k, stage);
          consume<F>(smem, stage, parity, acc);
          if (++stage == kPipelineStages) {
            stage = 0;
            parity ^= 1;
          }
        }
        store_tile<F>(p, smem, tile, acc);
      }
      if (threadIdx.x == 0) hopper::bulk_wait<0>();
    }
  }
}
}  // namespace moe::test
