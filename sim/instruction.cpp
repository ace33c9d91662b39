#include "sim/instruction.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::sim {
namespace {

constexpr int kMathWarpsOfMma = 4;

/// Warpgroups of 64 rows of M each: weights (swap_ab), tokens (128), or the same 64 tokens against 64 of the
/// weights.
KblockInstructions wgmma_instructions(const GemmShape& gemm) {
  const bool swap = gemm.layout == Layout::swap_ab;
  KblockInstructions k;
  k.wgmma_n = swap ? gemm.tile.block_m : gemm.tile.block_m == 64 ? 64 : gemm.tile.block_n;
  k.wgmma = std::int64_t(gemm.math_warps() / 4) * (gemm.tile.block_k / sm90::kWgmmaK8bit);
  k.shared_bytes = k.wgmma * sm90::kWgmmaK8bit * (sm90::kWgmmaM + k.wgmma_n);
  return k;
}

/// Four warps, each a quarter of the weight rows and all tokens. A lane loads 4 codes at once and makes two
/// f16x2 of them, so a fragment of r rows x 16 of k costs r/8 loads and r/4 conversions of the warp.
KblockInstructions mma_instructions(const GemmShape& gemm) {
  const int steps = gemm.tile.block_k / sm90::kMmaK, columns = gemm.tile.block_n / kMathWarpsOfMma;
  const int fragments = (gemm.tile.block_m + columns) / 8;  // 8-row pieces of both operands that a warp reads
  KblockInstructions k;
  k.mma = std::int64_t(steps) * (gemm.tile.block_m / sm90::kMmaM) * (gemm.tile.block_n / sm90::kMmaN);
  k.shared_loads = std::int64_t(kMathWarpsOfMma) * steps * fragments;
  k.conversions = 2 * k.shared_loads;
  k.shared_bytes = k.shared_loads * sm90::kThreadsPerWarp * 4;
  return k;
}

}  // namespace

double wgmma_cycles(const Hardware& hardware, int n, bool a_in_registers) {
  if (!sm90::legal_wgmma_n(n)) {
    throw BadInput(fmt::format("wgmma: N = {} is no multiple of 8 between 8 and 256", n));
  }
  return (a_in_registers ? hardware.wgmma_cycles_rs : hardware.wgmma_cycles_ss).at(n);
}

double wgmma_ideal_cycles(const Hardware& hardware, int n) {
  return 2.0 * sm90::kWgmmaM * sm90::kWgmmaK8bit * n / hardware.fp8_flop_per_cycle;
}

double mma_ideal_cycles(const Hardware& hardware) {
  constexpr double flop = 2.0 * sm90::kMmaM * sm90::kMmaN * sm90::kMmaK, schedulers = 4;
  return flop / (hardware.fp8_flop_per_cycle / 2 / schedulers);
}

KblockInstructions kblock_instructions(const GemmShape& gemm) {
  return gemm.layout == Layout::normal_mma ? mma_instructions(gemm) : wgmma_instructions(gemm);
}

}  // namespace moe::sim
