#include "sim/tiles.hpp"

#include "fixtures/problem/auto_tile.hpp"

namespace moe::sim {

std::int64_t tile_count(const GemmShape& gemm, const ExpertLoad& load) {
  std::int64_t blocks = 0;
  for (std::int64_t rows : load.rows) blocks += gemm.blocks(rows);
  return blocks * gemm.panels();
}

std::int64_t grid_size(const GemmShape& gemm, std::int64_t pairs, int experts, int sms) {
  return std::min<std::int64_t>(sms, most_blocks(pairs, experts, gemm.tile.block_m) * gemm.panels());
}

std::vector<Tile> tiles_of_cta(const GemmShape& gemm, const ExpertLoad& load, std::int64_t cta,
                               std::int64_t grid) {
  std::vector<Tile> mine;
  std::int64_t index = 0;
  for_each_tile(gemm, load, [&](const Tile& tile) {
    if (index++ % grid == cta) mine.push_back(tile);
  });
  return mine;
}

}  // namespace moe::sim
