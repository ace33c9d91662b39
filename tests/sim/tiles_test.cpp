#include "sim/tiles.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "fixtures/problem/auto_tile.hpp"
#include "sim/counts.hpp"
#include "sim/instruction.hpp"
#include "support.hpp"

namespace moe::sim {
namespace {

struct Drawn {
  GemmShape gemm;
  ExpertLoad load;
};

Drawn draw(std::int64_t most_rows) {
  Drawn drawn;
  drawn.gemm = gemm_shape(*any_layout(), *rc::gen::inRange<std::int64_t>(1, 600),
                          *rc::gen::inRange<std::int64_t>(16, 700));
  drawn.gemm.block_scales = *rc::gen::arbitrary<bool>();
  drawn.load.rows = *any_rows(12, most_rows);
  return drawn;
}

// A tile missing, computed twice or reaching over an edge: each (expert, row, column) must be covered exactly
// once.
RC_GTEST_PROP(Tiles, CoverEachOutputExactlyOnce, ()) {
  const auto [gemm, load] = draw(150);
  std::map<int, std::vector<int>> hits;
  for (int e = 0; e < int(load.rows.size()); ++e) hits[e].assign(std::size_t(load.rows[e] * gemm.n), 0);
  for_each_tile(gemm, load, [&](const Tile& tile) {
    RC_ASSERT(tile.rows >= 1 && tile.rows <= gemm.tile.block_m);
    RC_ASSERT(tile.columns >= 1 && tile.columns <= gemm.tile.block_n);
    for (std::int64_t r = 0; r < tile.rows; ++r)
      for (std::int64_t c = 0; c < tile.columns; ++c)
        ++hits[tile.expert].at(
            std::size_t((tile.block * gemm.tile.block_m + r) * gemm.n + tile.panel * 128 + c));
  });
  for (const auto& [expert, counts] : hits)
    for (int count : counts) RC_ASSERT(count == 1);
}

// A wrong order would break the L2 reuse that the model counts on: experts ascend, then panels, then blocks.
RC_GTEST_PROP(Tiles, AreInTheContractsOrder, ()) {
  const auto [gemm, load] = draw(400);
  std::vector<std::tuple<int, std::int64_t, std::int64_t>> order;
  for_each_tile(gemm, load, [&](const Tile& t) { order.emplace_back(t.expert, t.panel, t.block); });
  RC_ASSERT(std::is_sorted(order.begin(), order.end()));
}

// A CTA that skips or repeats a tile: the CTAs' sequences, interleaved, must be the list; and no grid larger
// than needed.
RC_GTEST_PROP(Tiles, SequencesOfTheCtasAreTheList, ()) {
  const auto [gemm, load] = draw(300);
  const std::int64_t grid = *rc::gen::inRange<std::int64_t>(1, 20);
  std::vector<std::vector<Tile>> ctas;
  for (std::int64_t c = 0; c < grid; ++c) ctas.push_back(tiles_of_cta(gemm, load, c, grid));
  std::int64_t index = 0;
  for_each_tile(gemm, load, [&](const Tile& tile) {
    RC_ASSERT(ctas[std::size_t(index % grid)].at(std::size_t(index / grid)) == tile);
    ++index;
  });
  RC_ASSERT(index == tile_count(gemm, load));
}

// A grid that is too small a bound would still be correct but slow; one that exceeds the bound wastes CTAs.
// most_blocks must cover every routing of so many pairs.
RC_GTEST_PROP(Tiles, GridCoversEveryRouting, ()) {
  const auto [gemm, load] = draw(300);
  std::int64_t blocks = 0;
  for (std::int64_t rows : load.rows) blocks += gemm.blocks(rows);
  RC_ASSERT(blocks <= most_blocks(load.total(), int(load.rows.size()), gemm.tile.block_m));
}

// A wrong closed form: counts summed tile by tile, from the tile's own size, must equal it.
RC_GTEST_PROP(Counts, ClosedFormEqualsTheTileList, ()) {
  const auto [gemm, load] = draw(300);
  RC_PRE(load.total() > 0);
  Counts sum;
  const std::int64_t kblocks = (gemm.k + 127) / 128, m = gemm.tile.block_m;
  for_each_tile(gemm, load, [&](const Tile&) {
    ++sum.tiles;
    sum.tma_loads += kblocks * (gemm.block_scales ? 3 : 2);
    sum.tma_load_bytes += kblocks * ((128 + m) * 128 + (gemm.block_scales ? 4 * m : 0));
    if (gemm.layout == Layout::normal_mma)
      sum.mma += kblocks * 8 * (m / 16) * 16;
    else
      sum.wgmma[gemm.layout == Layout::swap_ab ? int(m) : m == 64 ? 64 : 128] += kblocks * 4 * 2;
  });
  Counts counts = gemm_counts(gemm, load, load.total(), 132);
  RC_ASSERT(counts.ctas >= 1 && counts.ctas <= 132);
  counts.ctas = 0;
  RC_ASSERT(counts == sum);
  RC_ASSERT(counts.macs() >= load.total() * gemm.n * gemm.k);
}

// Numbers worked out by hand, DeepSeek-V3 TP8 with two active experts of 3 and 9 rows: 4 panels of 128
// columns and 56 k-blocks in GEMM 1, 56 panels and 2 k-blocks in GEMM 2; tiles of 8 tokens make 1 + 2 blocks.
TEST(Counts, OfALayerByHand) {
  Problem problem = deepseek_v3(2);
  ExpertLoad load;
  load.rows.assign(256, 0);
  load.rows[7] = 3;
  load.rows[200] = 9;
  problem.shape.tokens = 2;  // 16 pairs, 12 of them here
  const Counts counts = count(problem, choice_of(Layout::swap_ab, 8), load, 132);
  EXPECT_EQ(counts.tiles, 3 * 4 + 3 * 56);
  EXPECT_EQ(counts.wgmma.at(8), (3 * 4 * 56 + 3 * 56 * 2) * 8);
  EXPECT_EQ(counts.tma_load_bytes, (3 * 4 * 56 + 3 * 56 * 2) * (136 * 128 + 32));
  EXPECT_EQ(counts.ctas, 16 * 4 + 132);
  EXPECT_EQ(counts.mma, 0);
  EXPECT_EQ(counts.tma_store_bytes, 0);
}

// An idle rank must launch nothing; in a layer, a rank whose experts got no row still launches and computes
// no tile.
TEST(Counts, OfNothing) {
  EXPECT_EQ(count(deepseek_v3(0), choice_of(Layout::swap_ab), ExpertLoad{}, 132), Counts{});
  ExpertLoad idle;
  idle.rows.assign(32, 0);
  const Counts counts = count(deepseek_v3(4), choice_of(Layout::normal_mma), idle, 132);
  EXPECT_EQ(count(gemm_of(deepseek_v3(4), 1), choice_of(Layout::normal_mma), idle, 132), Counts{});
  EXPECT_EQ(counts.tiles, 0);
  EXPECT_GT(counts.ctas, 0);
  EXPECT_EQ(counts.macs(), 0);
}

}  // namespace
}  // namespace moe::sim
