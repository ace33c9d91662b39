// Do the grouped GEMM kernels compute what GroupedGemmParams says, on the emulated SM, under many schedules,
// and count what their contract counts?
#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernels/emulated_variants.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/device/gemm_problem.hpp"

namespace moe::device {
namespace {
using namespace test;

/// Seed 0 is the deterministic schedule, the others choose mode, order and poison.
Outcome run_emulated(std::uint64_t seed, int variant, const Gemm& g, int grid) {
  emulator::Options options;
  if (seed != 0) options = emulator::Options::adversarial(seed, reference::mma_step());
  options.arithmetic = reference::mma_step();
  EmulatedMachine machine(emulated_variants(), options, grid);
  return run(machine, variant, g, grid);
}

/// Rows around the tile's border, with dead experts in front, between and behind.
std::vector<int> draw_rows(Random& random, int block_m) {
  std::vector<int> rows(std::size_t(draw(random, 1, 4)));
  for (int& r : rows)
    r = std::max(0, pick(random, {0, 0, 1, 3, block_m - 2, block_m - 1, block_m, block_m + 1, block_m + 2,
                                  2 * block_m + 1}));
  if (std::all_of(rows.begin(), rows.end(), [](int r) { return r == 0; })) rows.back() = 1;
  return rows;
}

/// Small shapes; K on both sides of the length from which a second k-block is in flight, odd and even.
Gemm draw_gemm(Random& random, const GemmConfig& config, const DataMode& mode) {
  const bool block = config.scales == ScaleKind::block;
  const int n = block ? pick(random, {128, 256}) : pick(random, {128, 192, 256, 320, 131, 200});
  const int k = block ? pick(random, {128, 256, 384, 640, 1024, 1152})
                      : pick(random, {128, 256, 384, 640, 144, 400, 1040, 1136});
  Gemm g =
      make_gemm(random, config.scales, draw_rows(random, config.block_m), n, k, mode, draw(random, 0, 1));
  add_extras(random, g);
  return g;
}

std::vector<int> gemm_variants() {
  std::vector<int> all;
  for (const Variant& v : kVariants)
    if (v.kind == KernelKind::grouped_gemm) all.push_back(v.index);
  return all;
}
class GroupedGemm : public testing::TestWithParam<int> {
 protected:
  const GemmConfig config = kVariants[GetParam()].gemm;
};
INSTANTIATE_TEST_SUITE_P(Variants, GroupedGemm, testing::ValuesIn(gemm_variants()),
                         [](const auto& info) { return std::string(kVariants[info.param].name); });

void expect_clean(const Outcome& got) {
  for (const std::string& report : got.reports) ADD_FAILURE() << report;
}

// Catches: a wrong coordinate, scale index, fragment place, tail predicate or row map; a store to a row or
// column that nothing owns; a stage read too early or given back too early; a miscounted box or instruction.
TEST_P(GroupedGemm, EqualsTheExactProductUnderAnySchedule) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random random(1000 * seed + GetParam());
    const Gemm g = draw_gemm(random, config, kExact);
    const int grid = draw(random, 1, 3);
    const Outcome got = run_emulated(seed, GetParam(), g, grid);
    expect_clean(got);
    ASSERT_EQ(got.out, expected_exact(g)) << "seed " << seed << ", n " << g.n << ", k " << g.k;
    ASSERT_TRUE(got.counted);
    EXPECT_EQ(got.counts, expected_counts(g, config, grid));
  }
}

// Catches: another order of scales, promotion or k; a rounding too many. wgmma layouts have one expectation,
// so that they are equal to each other to the bit.
TEST_P(GroupedGemm, RoundsAsItsContractSays) {
  Random random(GetParam() + 77);
  Gemm g = make_gemm(random, config.scales, {3, 0, config.block_m + 1}, 128, 384, kRandom);
  if (draw(random, 0, 1)) g.bias.assign(std::size_t(g.experts()) * g.n, 0.37f);
  const Outcome got = run_emulated(5, GetParam(), g, 2);
  expect_clean(got);
  EXPECT_EQ(got.out, expected_bits(g, reference::mma_step(), config.kind == GemmKind::normal_mma));
}

// Catches what bf16 hides from the test above: one fp32 rounding in another place, such as the order of two
// scales.
TEST_P(GroupedGemm, RoundsEveryFp32BitAsItsContractSays) {
  Random random(GetParam() + 78);
  const bool mma = config.kind == GemmKind::normal_mma;
  Gemm g = make_gemm(random, config.scales, {1, 1, 1}, 256, 384, kRandom);
  bias_away_leading_bits(g, reference::mma_step(), mma);
  const Outcome got = run_emulated(6, GetParam(), g, 2);
  expect_clean(got);
  EXPECT_EQ(got.out, expected_bits(g, reference::mma_step(), mma));
}

// Catches: weight scales of the second 32 k-blocks of a tile taken from the first, or from the tile behind.
TEST_P(GroupedGemm, TakesMoreThan32KBlocks) {
  Random random(GetParam() + 79);
  const Gemm g = make_gemm(random, config.scales, {3, 1}, 128, 33 * 128, kExact);
  const Outcome got = run_emulated(0, GetParam(), g, 1);
  expect_clean(got);
  EXPECT_EQ(got.out, expected_exact(g));
}

// Catches: a tile list that ends at the 32 tiles which a warp looks up at a time, or that loses its place
// among dead experts; a CTA with nothing to do that does something.
TEST_P(GroupedGemm, WalksLongListsAndLeavesIdleCtasAlone) {
  Random random(GetParam());
  std::vector<int> rows(70, 0);
  for (std::size_t e = 1; e < rows.size(); e += 2) rows[e] = 1;
  const Gemm g = make_gemm(random, config.scales, rows, 128, 128, kExact);
  for (int grid : {1, 37}) {
    const Outcome got = run_emulated(0, GetParam(), g, grid);
    expect_clean(got);
    EXPECT_EQ(got.out, expected_exact(g)) << "grid " << grid;
  }
}

// Catches: a launch without rows (an idle rank) that loads, stores, waits for ever or trips over the empty
// list.
TEST_P(GroupedGemm, DoesNothingWithoutRows) {
  Random random(1);
  Gemm g = make_gemm(random, config.scales, {8}, 128, 128, kExact);
  g.rows = {0};
  const Outcome got = run_emulated(1, GetParam(), g, 2);
  expect_clean(got);
  EXPECT_EQ(got.out, std::vector<std::uint16_t>(got.out.size(), kPoison));
  EXPECT_EQ(got.counts, expected_counts(g, config, 2));
}

// Catches: a line of the table that the lookup cannot reach, or one that it takes for another.
TEST(GemmVariant, IsFoundByLayoutTileAndScales) {
  for (Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab})
    for (int block_m : {8, 16, 32, 64, 128})
      for (int block_n : {64, 128})
        for (ScaleKind scales : {ScaleKind::block, ScaleKind::flat}) {
          const auto found = find_gemm_variant(layout, block_m, block_n, scales);
          const int least = layout == Layout::swap_ab ? 8 : layout == Layout::normal_mma ? 16 : 64;
          const bool wide = block_m >= least && (layout != Layout::normal_mma || block_m <= 32);
          ASSERT_EQ(found.has_value(), block_n == 128 ? wide : block_m == least);
          if (!found) continue;
          const GemmConfig c = kVariants[*found].gemm;
          EXPECT_TRUE(c.kind == gemm_kind(layout) && c.block_m == block_m && c.block_n == block_n &&
                      c.scales == scales);
        }
}

}  // namespace
}  // namespace moe::device
