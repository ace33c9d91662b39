// What does one k-block of a tile (block_m tokens x 128 weight rows x 128 of k) issue, and how many cycles
// does each instruction take? Legal shapes come from fixtures/problem/sm90.hpp, cycles from the card's
// microbenchmarks.
#pragma once
#include <cstdint>

#include "fixtures/problem/hardware.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

/// SM cycles of one wgmma.m64nNk32 on e4m3 in a chain. Throws BadInput for an N that the ISA does not have.
/// On Hopper, both operands in shared memory: max(N/2, (64*32 + 32*N) / 128 bytes) = max(N/2, 16 + N/4).
double wgmma_cycles(const Hardware& hardware, int n, bool a_in_registers = false);

/// SM cycles the tensor cores would need at their full rate: 64 * N * 32 multiply-adds of e4m3 (N/2 on
/// Hopper).
double wgmma_ideal_cycles(const Hardware& hardware, int n);

/// Scheduler cycles of one mma.sync.m16n8k16 on f16 at the full rate, half that of e4m3 (4 on Hopper; 6 are
/// measured).
double mma_ideal_cycles(const Hardware& hardware);

/// Instructions of one k-block of one tile, over all math warps.
struct KblockInstructions {
  int wgmma_n = 0;                // N of the wgmma; 0 = none
  std::int64_t wgmma = 0;         // per warpgroup
  std::int64_t mma = 0;           // m16n8k16, per warp
  std::int64_t conversions = 0;   // e4m3x2 -> f16x2, per warp
  std::int64_t shared_loads = 0;  // 4-byte loads of fragments, per warp
  std::int64_t shared_bytes = 0;  // read from shared memory by wgmma and by loads
};
KblockInstructions kblock_instructions(const GemmShape& gemm);

}  // namespace moe::sim
