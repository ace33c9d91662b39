// Which tile does a grouped GEMM kernel compute, and where does each thing lie in its shared memory? Bytes.
// Pure constexpr: the kernel, the table of variants and the host's launch all read it from here.
#pragma once
#include <cstdint>

#include "device/kernels/grouped_gemm_params.hpp"
#include "device/planted/faults.hpp"
#include "fixtures/problem/host_device.hpp"

namespace moe::device {

/// normal_mma: f16 mma.sync, tokens are rows. normal_wgmma: tokens are the M of wgmma. swap_ab: weights are
/// the M.
enum class GemmKind : std::uint8_t { swap_ab, normal_wgmma, normal_mma };
/// block: 1x128 activations and 128x128 weights, applied every 128 of k. flat: one factor a row and a column,
/// at the end.
enum class ScaleKind : std::uint8_t { block, flat };

struct GemmConfig {
  GemmKind kind;
  int block_m;  // tokens of a tile
  int stages;   // k-blocks in flight
  ScaleKind scales;
  int block_n = 128;  // weight rows of a tile; 64 (at the layout's smallest block_m) where 128 leave SMs idle
  Fault fault = Fault::none;  // planted between a wgmma's fence and its wait; none in a release build

  static constexpr int block_k = 128;  // bytes = codes of a k-block

  MOE_HD constexpr bool swap_ab() const { return kind == GemmKind::swap_ab; }
  MOE_HD constexpr bool block_scales() const { return scales == ScaleKind::block; }
  MOE_HD constexpr int math_warps() const { return kind == GemmKind::normal_mma || block_n == 64 ? 4 : 8; }
  /// 128 accumulators a thread do not fit the 168 registers that 9 warps could have each: a whole producer
  /// warpgroup gives registers to the math warps (setmaxnreg works on warpgroups). Else one producer warp
  /// follows the math warps.
  MOE_HD constexpr bool moves_registers() const { return kind != GemmKind::normal_mma && wgmma_n() == 128; }
  MOE_HD constexpr int threads() const { return 32 * (math_warps() + (moves_registers() ? 4 : 1)); }

  /// N of the wgmma: swap_ab's tokens; normal_wgmma: 64 weight rows a warpgroup for 64 tokens, or 128 tokens
  /// have all of them.
  MOE_HD constexpr int wgmma_n() const { return swap_ab() ? block_m : block_m == 64 ? 64 : block_n; }
  /// Weight columns of a math warp of normal_mma.
  MOE_HD constexpr int mma_columns() const { return block_n / 4; }

  // ---- a stage: weights, then tokens, both whole 1024-byte swizzle atoms
  MOE_HD constexpr int weights_bytes() const { return block_n * block_k; }
  MOE_HD constexpr int tokens_bytes() const { return block_m * block_k; }
  MOE_HD constexpr int stage_bytes() const { return weights_bytes() + tokens_bytes(); }
  MOE_HD constexpr int scales_bytes() const { return block_scales() ? block_m * 4 : 0; }
  MOE_HD constexpr int load_bytes() const { return stage_bytes() + scales_bytes(); }

  // ---- output patches: bf16 [tokens][columns], rows padded by 16 bytes so that both ways through are free
  // of conflicts
  MOE_HD constexpr int patches() const { return math_warps() / 4; }  // one a group of 4 warps
  MOE_HD constexpr int patch_rows() const { return block_m < 64 ? block_m : 64; }
  MOE_HD constexpr int patch_columns() const { return kind == GemmKind::normal_mma ? block_n : 64; }
  MOE_HD constexpr int patch_pitch() const { return patch_columns() * 2 + 16; }
  MOE_HD constexpr int patch_bytes() const { return patch_rows() * patch_pitch(); }

  MOE_HD constexpr int scales_offset() const { return stages * stage_bytes(); }
  MOE_HD constexpr int patch_offset() const { return scales_offset() + stages * scales_bytes(); }
  MOE_HD constexpr int barrier_offset() const { return patch_offset() + patches() * patch_bytes(); }
  MOE_HD constexpr int block_start_offset() const { return barrier_offset() + 2 * stages * 8; }
  MOE_HD constexpr int shared_bytes() const { return block_start_offset() + (kMaxGemmExperts + 1) * 4; }
};

constexpr GemmConfig with_fault(GemmConfig c, Fault fault) {
  c.fault = fault;
  return c;
}

}  // namespace moe::device
