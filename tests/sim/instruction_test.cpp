#include "sim/instruction.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fixtures/problem/errors.hpp"
#include "support.hpp"

namespace moe::sim {
namespace {

// A table read with a shifted column, a wrong operand form or an interpolation where a row exists: the
// measured rows of wgmma,chain,type=e4m3,op=SS and RS, W=1, must come back as they are.
TEST(Instruction, TableIsTheMeasuredRows) {
  const std::pair<int, double> ss[] = {{8, 18.06},   {16, 20.06},  {24, 22.06},   {32, 24.06},
                                       {48, 28.07},  {64, 32.07},  {96, 48.07},   {128, 64.08},
                                       {160, 80.09}, {192, 96.10}, {224, 112.10}, {256, 128.10}};
  for (auto [n, cycles] : ss) EXPECT_DOUBLE_EQ(wgmma_cycles(h200(), n), cycles) << "N = " << n;
  const std::pair<int, double> rs[] = {{8, 13.14}, {24, 13.12}, {32, 16.11}, {128, 64.12}, {256, 128.19}};
  for (auto [n, cycles] : rs) EXPECT_DOUBLE_EQ(wgmma_cycles(h200(), n, true), cycles) << "N = " << n;
}

// A table that is not what the hardware does: the law of shared-memory bandwidth must explain every legal N,
// those that were not measured included.
TEST(Instruction, SharedMemoryLawExplainsTheTable) {
  for (int n = 8; n <= 256; n += 8) {
    EXPECT_NEAR(wgmma_cycles(h200(), n), std::max(n / 2.0, 16 + n / 4.0), 0.12) << "N = " << n;
    EXPECT_DOUBLE_EQ(wgmma_ideal_cycles(h200(), n), n / 2.0);
  }
}

// An N that the ISA does not have must be refused, not interpolated.
TEST(Instruction, RefusesShapesTheIsaDoesNotHave) {
  for (int n : {0, 4, 12, 264, -8}) EXPECT_THROW(wgmma_cycles(h200(), n), BadInput) << "N = " << n;
}

// Wrong instruction selection: which N, how many of them, and what the FP8 conversion of normal_mma adds.
TEST(Instruction, SelectionByLayout) {
  const auto of = [](Layout layout, int block_m) {
    return kblock_instructions(gemm_shape({layout, block_m}, 512, 7168));
  };
  EXPECT_EQ(of(Layout::swap_ab, 8).wgmma_n, 8);
  EXPECT_EQ(of(Layout::swap_ab, 8).wgmma, 8);
  EXPECT_EQ(of(Layout::normal_wgmma, 64).wgmma_n, 64);
  EXPECT_EQ(of(Layout::normal_wgmma, 128).wgmma_n, 128);
  EXPECT_EQ(of(Layout::normal_wgmma, 128).wgmma, 8);
  EXPECT_EQ(of(Layout::normal_mma, 16).wgmma, 0);
  EXPECT_EQ(of(Layout::normal_mma, 16).mma, 8 * 16);
  EXPECT_EQ(of(Layout::normal_mma, 32).mma, 2 * 8 * 16);
  // Per warp and 16 of k: four n8 pieces of weights and two (four) 8-row pieces of tokens, two conversions
  // each.
  EXPECT_EQ(of(Layout::normal_mma, 16).conversions, 4 * 8 * (4 + 2) * 2);
  EXPECT_EQ(of(Layout::normal_mma, 32).conversions, 4 * 8 * (4 + 4) * 2);
}

// Multiply-adds lost or doubled: every layout's instructions must do exactly the k-block's products, 64-row
// padding of normal_wgmma included.
RC_GTEST_PROP(Instruction, InstructionsDoTheWorkOfTheTile, ()) {
  const auto layout = *any_layout();
  const KblockInstructions k = kblock_instructions(gemm_shape(layout, 512, 512));
  const std::int64_t macs = k.wgmma * 64 * k.wgmma_n * 32 + k.mma * 16 * 8 * 16;
  RC_ASSERT(macs == std::int64_t(layout.second) * 128 * 128);
}

}  // namespace
}  // namespace moe::sim
