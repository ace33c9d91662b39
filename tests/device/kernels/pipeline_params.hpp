// What does the checker's test pipeline take, and which protocol faults can be planted in it? Plain host
// code.
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"

namespace moe::test {

/// out[row][n] = sum over k-blocks of scale[kb][row] * (A[row][128 kb ..] . B[n][128 kb ..]), tiles of 64
/// rows.
struct PipelineParams {
  hopper::TensorMap a, b;  // A [tiles*64][K], B [N][K]
  const float* scales;     // [K/128][tiles*64]
  float* out;              // [tiles*64][N]
  int tiles, k_blocks;
  int rows;  // valid rows of the last tile are stored one by one
};

enum class Fault {
  none,
  missing_full_wait,
  missing_empty_wait,
  parity_never_flips,
  missing_wgmma_wait,
  missing_proxy_fence,
  expect_too_few_bytes,
  expect_too_many_bytes,
  store_past_the_end,
  stage_released_early,
  missing_epilogue_barrier,
  missing_bulk_wait,
  missing_wgmma_fence,
  warp_skips_wgmma,
  misaligned_tiles,
  init_without_fence,
  init_without_barrier,
  barrier_count_too_large,
  empty_count_too_small,
  missing_commit,
  scales_read_after_release,
  scale_read_past_the_end,
  one_arrival_for_all_warps,
  producer_parity_not_inverted,
  no_final_wait,
  lane_leaves_warp_sync,
  store_to_input,
  stages_overlap,
  shared_read_out_of_bounds,
  misaligned_load,
  uninitialised_read,
  other_swizzle,
  count
};

inline constexpr int kPipelineStages = 3, kPipelineN = 16, kPipelineThreads = 192;
inline constexpr int kStageBytes = 64 * 128 + kPipelineN * 128;
inline constexpr int kScalesAt = kPipelineStages * kStageBytes;  // float [stages][64]
inline constexpr int kOutAt =
    kScalesAt + kPipelineStages * 64 * 4;  // float [64][N], and room to be misaligned
inline constexpr int kBarriersAt = kOutAt + 64 * kPipelineN * 4 + 1024;  // full[stages], empty[stages]
inline constexpr int kPipelineShared = kBarriersAt + 2 * kPipelineStages * 8;

/// The instrumented kernel with one planted fault, as EmulatedKernel::run.
using PipelineRun = void (*)(const void*);
PipelineRun pipeline(Fault fault);

}  // namespace moe::test
