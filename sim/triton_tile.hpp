// What does Triton make of one tile of a fused-MoE kernel on Hopper: which tensor instructions, over which
// warps, with how many registers and how much shared memory, so how many CTAs of it share an SM? The rules
// are the compiler's (lib/Analysis/Utility.cpp, AccelerateMatmul.cpp of Triton 3.x), corrected by what Triton
// 3.6.0 emitted (fixtures/measured/h200_triton_instructions.txt): fewer than 16 columns are no wgmma.
#pragma once
#include <cstdint>

#include "sim/gemm_shape.hpp"

namespace moe::sim {

/// The product of one k-block is D = left x right, left [rows, k] and right [k, columns]: tokens are the rows
/// in the normal layouts, weights in swap_ab. The case's word normal_mma or normal_wgmma decides nothing: the
/// tile does.
struct TritonTile {
  int stages = 3, warps = 4;          // num_stages, num_warps
  bool wgmma = false;                 // else mma.sync m16n8k16 on f16, FP8 converted in registers
  int wgmma_n = 0;                    // N of the wgmma
  std::int64_t wgmma_per_kblock = 0;  // of the CTA, one a warpgroup; all of them have M = 64
  std::int64_t wgmma_chain = 0;       // of these, one warpgroup's
  std::int64_t mma_per_warp = 0;      // a k-block
  std::int64_t conversions = 0;       // e4m3x2 -> f16x2 a warp and k-block
  std::int64_t fragment_bytes = 0;    // that all warps read from shared memory for a k-block, mma only
  std::int64_t scale_loads = 0;       // a thread and k-block: of its rows and columns, with block scales
  std::int64_t operand_bytes = 0;     // codes of one k-block
  int buffers = 0;                    // of operands: num_stages, one fewer for mma.sync
  int registers = 0;                  // a thread, estimated
  int spilled = 0;                    // registers a thread beyond what it can have
  std::int64_t shared_bytes = 0;      // a CTA
  int ctas_per_sm = 1;
};
/// Throws BadInput for a tile that the compiler does not take: sides that are no powers of two, fewer than 8
/// tokens, or one that shared memory cannot hold.
TritonTile triton_tile(const GemmShape& gemm);

}  // namespace moe::sim
