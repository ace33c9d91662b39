#include "sim/kblock.hpp"

#include <algorithm>

#include "fixtures/problem/sm90.hpp"
#include "sim/instruction.hpp"

namespace moe::sim {
namespace {

constexpr double kSchedulers = 4;
/// A k-block counts as held by the tensor cores when their instructions fill this share of it.
constexpr double kTensorShare = 0.75;

double loader_cycles(const Hardware& hardware, const GemmShape& gemm) {
  const int rows = gemm.gathered_from > 0 ? gemm.tile.block_m - 1 : 0;  // beyond the first
  return hardware.producer_cycles + hardware.producer_cycles_per_load * (gemm.loads() - rows) +
         hardware.producer_cycles_per_row * rows;
}

/// swap_ab's accumulators lie along the tokens, so that a thread reads block_m / 4 of their block scales
/// where the measured loop has none and normal_wgmma two: a pass of shared memory each, a cycle. Calibrate's
/// loops with and without them (wgmma_promote_columns, _rows, two warpgroups): 263 cycles at N = 128, 157 at
/// 64, 73 at 32.
double scale_passes(const GemmShape& gemm) {
  if (!gemm.block_scales || gemm.layout != Layout::swap_ab) return 0;
  return gemm.math_warps() * std::max(gemm.tile.block_m / 4.0 - 2, 0.0);
}

KblockCost wgmma_cost(const Hardware& hardware, const GemmShape& gemm,
                      const KblockInstructions& instructions) {
  const int n = instructions.wgmma_n;
  const double count = double(instructions.wgmma);
  KblockCost cost;
  cost.instruction = count * wgmma_cycles(hardware, n);
  cost.tensor_ideal = count * wgmma_ideal_cycles(hardware, n);
  cost.tensor_busy = cost.tensor_ideal;
  const double chain = (hardware.kblock_promote_cycles.at(n) + hardware.kblock_barrier_cycles) /
                       (gemm.two_in_flight() ? 2 : 1);
  const bool pair = gemm.math_warps() > 4;
  const double together = pair ? hardware.kblock_promote_cycles_pair.at(n) + scale_passes(gemm) : 0;
  cost.cycles = std::max({cost.instruction, together, chain});
  cost.limit = cost.instruction >= kTensorShare * cost.cycles ? Limit::tensor : Limit::latency;
  return cost;
}

KblockCost mma_cost(const Hardware& hardware, const GemmShape& gemm, const KblockInstructions& instructions) {
  const double mma = instructions.mma / kSchedulers, conversions = instructions.conversions / kSchedulers;
  const double tensor = mma * hardware.mma_f16_cycles, convert = conversions * hardware.cvt_e4m3_cycles;
  const double issue = mma + conversions + instructions.shared_loads / kSchedulers;
  const double shared = instructions.shared_bytes / hardware.shared_bytes_per_cycle;
  const double promotion = double(gemm.tile.block_m) * gemm.tile.block_n / hardware.cvt_fma_per_cycle;
  KblockCost cost;
  cost.tensor_busy = tensor;
  cost.tensor_ideal = mma * mma_ideal_cycles(hardware);
  cost.instruction = std::max(tensor, convert);
  const double math = std::max({cost.instruction, issue, shared});
  cost.cycles = math + promotion + hardware.kblock_barrier_cycles;
  cost.limit = tensor >= math ? Limit::tensor : shared >= math ? Limit::shared_memory : Limit::issue;
  return cost;
}

}  // namespace

KblockCost kblock_cost(const Hardware& hardware, const GemmShape& gemm) {
  const KblockInstructions instructions = kblock_instructions(gemm);
  KblockCost cost = gemm.layout == Layout::normal_mma ? mma_cost(hardware, gemm, instructions)
                                                      : wgmma_cost(hardware, gemm, instructions);
  cost.shared = instructions.shared_bytes / hardware.shared_bytes_per_cycle;
  const double loader = loader_cycles(hardware, gemm);
  if (loader > cost.cycles) {
    cost.cycles = loader;
    cost.loader_bound = true;
    cost.limit = Limit::issue;
  }
  return cost;
}

double epilogue_cycles(const Hardware& hardware, const GemmShape& gemm) {
  const double threads = double(gemm.math_warps()) * sm90::kThreadsPerWarp;
  const double outputs = double(gemm.tile.block_m) * gemm.tile.block_n / threads;
  return hardware.epilogue_cycles + outputs * hardware.epilogue_cycles_per_output;
}

}  // namespace moe::sim
