#include "sim/triton_tile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::sim {
namespace {

constexpr int kWarpsPerGroup = 4, kDefaultStages = 3;
constexpr int kLeastWgmmaColumns = 16;
/// Shared memory that the driver keeps of each CTA, and all that an SM has (CUDA C++ Programming Guide,
/// compute capability 9.0).
constexpr std::int64_t kReservedPerCta = 1024, kSharedPerSm = 228 * 1024;
constexpr int kThreadsPerSm = 2048, kRegisterUnit = 8;
constexpr std::int64_t kScratchBytes = 512;  // beside the operands, as compiled

void check(const TileConfig& tile) {
  const auto power = [](int side, int least) { return side >= least && std::has_single_bit(unsigned(side)); };
  if (!power(tile.block_m, 8) || !power(tile.block_n, 16) || !power(tile.block_k, 32))
    throw BadInput(fmt::format(
        "tile {}x{}x{}: a Triton kernel has powers of two, at least 8 tokens, 16 columns and 32 of k",
        tile.block_m, tile.block_n, tile.block_k));
  if (tile.warps != 0 && !power(tile.warps, 1))
    throw BadInput(fmt::format("tile: {} warps; a Triton kernel has a power of two", tile.warps));
}

/// warpsPerTile of MMA v3: warpgroups along the rows first, what is left along the columns.
void set_wgmma(TritonTile& t, int rows, int columns, int block_k) {
  int row_warps = kWarpsPerGroup, column_warps = 1;
  while (row_warps * column_warps < t.warps) (rows > 16 * row_warps ? row_warps : column_warps) *= 2;
  t.wgmma_n = std::min(256, std::max(columns / column_warps, 8));
  const std::int64_t steps = block_k / sm90::kWgmmaK8bit;
  t.wgmma_per_kblock = std::int64_t(rows / sm90::kWgmmaM) * (columns / t.wgmma_n) * steps;
  // A thread of a warpgroup holds two rows of each 64 and a quarter of the columns (PTX ISA, "wgmma
  // accumulator fragments").
  t.scale_loads = 2 * std::max(rows / sm90::kWgmmaM * kWarpsPerGroup / row_warps, 1) + t.wgmma_n / 4;
  t.wgmma_chain = std::max<std::int64_t>(t.wgmma_per_kblock / (t.warps / kWarpsPerGroup), steps);
}

/// getMmaV2WarpsPerCTA: doubles along the larger remaining side, ties along the rows. A warp reads and
/// converts all rows and columns of its part.
void set_mma(TritonTile& t, int rows, int columns, int block_k) {
  const int row_tiles = (rows + sm90::kMmaM - 1) / sm90::kMmaM;
  const int column_tiles = (columns + sm90::kMmaN - 1) / sm90::kMmaN;
  int row_warps = 1, column_warps = 1;
  while (row_warps * column_warps < t.warps)
    (row_tiles / row_warps >= column_tiles / column_warps ? row_warps : column_warps) *= 2;
  const std::int64_t mine_r = std::max(row_tiles / row_warps, 1),
                     mine_c = std::max(column_tiles / column_warps, 1);
  const std::int64_t steps = block_k / sm90::kMmaK;
  t.mma_per_warp = mine_r * mine_c * steps;
  t.scale_loads = 2 * mine_r + 2 * mine_c;  // two rows and two columns of each 16x8 tile
  const std::int64_t values = (mine_r * sm90::kMmaM + mine_c * sm90::kMmaN) * block_k;
  t.conversions = values / (2 * sm90::kThreadsPerWarp);
  t.fragment_bytes = values * t.warps;
}

/// The line below is good to 20 %: a tile of 64 sums a thread is given 264 registers and was compiled to 251
/// without a spill.
constexpr double kCertainSpill = 1.2;

/// Registers a thread as Triton 3.6.0 compiled them for sums of 4 to 64 values a thread
/// (h200_triton_instructions.txt: 56 to 251): with block scales a sum, its part and their scaled product.
int registers_of(const GemmShape& gemm, int threads) {
  const int sums = gemm.tile.block_m * gemm.tile.block_n / threads;
  const int needed = gemm.block_scales ? 48 + 10 * sums / 3 : 54 + 4 * sums / 3;
  return (needed + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
}

int ctas_per_sm(const TritonTile& t) {
  const int threads = t.warps * sm90::kThreadsPerWarp;
  const std::int64_t by_shared = kSharedPerSm / (t.shared_bytes + kReservedPerCta);
  const std::int64_t by_registers = sm90::kRegistersPerSm / (std::int64_t(t.registers) * threads);
  return int(std::clamp<std::int64_t>(std::min(by_shared, by_registers), 1, kThreadsPerSm / threads));
}

}  // namespace

TritonTile triton_tile(const GemmShape& gemm) {
  const TileConfig& tile = gemm.tile;
  check(tile);
  TritonTile t;
  t.stages = tile.stages > 0 ? tile.stages : kDefaultStages;
  t.warps = tile.warps > 0 ? tile.warps : tile.block_m >= 128 ? 8 : 4;
  const bool swap = gemm.layout == Layout::swap_ab;
  const int rows = swap ? tile.block_n : tile.block_m, columns = swap ? tile.block_m : tile.block_n;
  t.wgmma = t.warps % kWarpsPerGroup == 0 && rows % sm90::kWgmmaM == 0 && columns >= kLeastWgmmaColumns;
  if (t.wgmma)
    set_wgmma(t, rows, columns, tile.block_k);
  else
    set_mma(t, rows, columns, tile.block_k);
  t.operand_bytes = std::int64_t(rows + columns) * tile.block_k;
  t.buffers = std::max(t.wgmma ? t.stages : t.stages - 1, 1);
  t.shared_bytes = t.buffers * t.operand_bytes + (gemm.block_scales ? kScratchBytes : 0);
  if (t.shared_bytes > sm90::kSharedBytesPerCta)
    throw BadInput(fmt::format("tile {}: {} buffers of {} bytes do not fit into {} KB of shared memory",
                               to_string(tile), t.buffers, t.operand_bytes, sm90::kSharedBytesPerCta / 1024));
  const int needed = registers_of(gemm, t.warps * sm90::kThreadsPerWarp);
  t.registers = std::min(needed, sm90::kMaxRegistersPerThread + 1);
  if (needed > kCertainSpill * sm90::kMaxRegistersPerThread) t.spilled = needed - t.registers;
  if (!gemm.block_scales) t.scale_loads = 0;
  t.ctas_per_sm = ctas_per_sm(t);
  return t;
}

}  // namespace moe::sim
