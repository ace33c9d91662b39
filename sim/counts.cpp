#include "sim/counts.hpp"

#include "fixtures/problem/auto_tile.hpp"
#include "sim/instruction.hpp"
#include "sim/shared_accesses.hpp"
#include "sim/tiles.hpp"

namespace moe::sim {

Counts gemm_counts(const GemmShape& gemm, const ExpertLoad& load, std::int64_t pairs, int sms) {
  Counts counts;
  const KblockInstructions instructions = kblock_instructions(gemm);
  counts.ctas = grid_size(gemm, pairs, int(load.rows.size()), sms);
  counts.tiles = tile_count(gemm, load);
  const std::int64_t kblocks = counts.tiles * gemm.kblocks();
  if (instructions.wgmma > 0 && kblocks > 0)
    counts.wgmma[instructions.wgmma_n] = kblocks * instructions.wgmma;
  counts.mma = kblocks * instructions.mma;
  counts.tma_load_bytes = kblocks * gemm.load_bytes();
  counts.tma_loads = kblocks * gemm.loads();
  const SharedAccesses shared = shared_accesses(gemm, load, counts.ctas);
  counts.shared_wavefronts = shared.wavefronts;
  counts.bank_conflicts = shared.conflicts;
  return counts;
}

bool launches_nothing(const Problem& problem, const ExpertLoad& load) {
  return problem.shape.tokens == 0 || (problem.op == Op::grouped_gemm && load.total() == 0);
}

Counts count(const Problem& problem, const Choice& choice, const ExpertLoad& load, int sms) {
  Counts counts;
  if (launches_nothing(problem, load)) return counts;
  for (const GemmShape& gemm : gemm_shapes(problem, resolve_tiles(choice, problem, load))) {
    counts += gemm_counts(gemm, load, problem.shape.pairs(), sms);
  }
  return counts;
}

}  // namespace moe::sim
