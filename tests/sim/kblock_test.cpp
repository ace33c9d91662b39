#include "sim/kblock.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/clock.hpp"
#include "support.hpp"

namespace moe::sim {
namespace {

KblockCost of(Layout layout, int block_m, bool block_scales = true) {
  GemmShape gemm = gemm_shape({layout, block_m}, 512, 7168);
  gemm.block_scales = block_scales;
  return kblock_cost(h200(), gemm);
}

// A term dropped or added where it must not be. By hand from the measured rows: one warpgroup's chain 444.22
// + 166 of barrier at N = 128; 266.17 + 166 at N = 64; the loader's 60 + 3 * 112 where the chain is shorter,
// halved by a second k-block in flight up to N = 16 and for normal_wgmma with N = 64.
TEST(Kblock, OfWgmmaByHand) {
  EXPECT_NEAR(of(Layout::swap_ab, 128, false).cycles, 610.22, 1e-9);
  EXPECT_NEAR(of(Layout::swap_ab, 128).cycles, 531.7 + 8 * 30, 1e-9);  // 32 scales a thread, not 2
  EXPECT_NEAR(of(Layout::normal_wgmma, 128).cycles, 610.22, 1e-9);
  EXPECT_NEAR(of(Layout::swap_ab, 8).cycles, 396, 1e-9);
  EXPECT_NEAR(of(Layout::swap_ab, 8, false).cycles, 284, 1e-9);
  EXPECT_NEAR(of(Layout::normal_wgmma, 64, false).cycles, 314, 1e-9);
  EXPECT_NEAR(of(Layout::swap_ab, 64, false).cycles, 432.17, 1e-9);
  EXPECT_EQ(of(Layout::normal_wgmma, 128).limit, Limit::tensor);
  EXPECT_EQ(of(Layout::swap_ab, 128).limit, Limit::latency);
  EXPECT_EQ(of(Layout::swap_ab, 8).limit, Limit::issue);
}

// Conversions forgotten: they, not the f16 mma, hold normal_mma. 16 tokens: 96 conversions of 4.3 cycles a
// scheduler, 16 cycles of promotion, the barrier; the 32 mma take 192.
TEST(Kblock, OfMmaByHand) {
  EXPECT_NEAR(of(Layout::normal_mma, 16).cycles, 96 * 4.3 + 16 + 166, 1e-9);
  EXPECT_NEAR(of(Layout::normal_mma, 32).cycles, 128 * 4.3 + 32 + 166, 1e-9);
  EXPECT_NEAR(of(Layout::normal_mma, 16).tensor_busy, 192, 1e-9);
  EXPECT_NEAR(of(Layout::normal_mma, 16).tensor_ideal, 128, 1e-9);
  EXPECT_EQ(of(Layout::normal_mma, 16).limit, Limit::issue);
}

// A wider tile may never be cheaper than a narrower one of the same layout, and no k-block beats its own
// instructions.
RC_GTEST_PROP(Kblock, WiderIsNeverCheaper, ()) {
  const auto a = *any_layout(), b = *any_layout();
  RC_PRE(a.first == b.first && a.second <= b.second);
  RC_ASSERT(of(a.first, a.second).cycles <= of(b.first, b.second).cycles);
  RC_ASSERT(of(a.first, a.second).cycles >= of(a.first, a.second).instruction);
  RC_ASSERT(of(a.first, a.second).tensor_busy <= of(a.first, a.second).instruction);
}

// A clock that ignores the load, or one that rises with it.
RC_GTEST_PROP(Clock, FallsWithTheTensorLoad, ()) {
  const double low = *rc::gen::inRange(0, 100) / 100.0, high = low + *rc::gen::inRange(0, 100) / 100.0;
  RC_ASSERT(sustained_hz(h200(), low) >= sustained_hz(h200(), high));
  const double settled = settle_clock(h200(), [&](double hz) { return low * h200().tensor_hz / hz; });
  RC_ASSERT(settled <= h200().tensor_hz && settled >= h200().clock_by_tensor_load.points.back().second);
}

}  // namespace
}  // namespace moe::sim
