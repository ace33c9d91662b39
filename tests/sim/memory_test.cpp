#include "sim/memory.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support.hpp"

namespace moe::sim {
namespace {

// The composition of three curves must give back the rows each was measured at.
TEST(Memory, HbmRateReproducesTheMeasuredRows) {
  struct Row {
    double sms, kb, rate;
  };
  const Row rows[] = {{132, 8, 1.965e12},  {132, 16, 3.064e12}, {132, 32, 4.359e12}, {132, 48, 4.635e12},
                      {132, 64, 4.680e12}, {33, 64, 2.819e12},  {66, 64, 4.267e12},  {33, 192, 3.475e12},
                      {66, 192, 4.026e12}, {132, 192, 4.698e12}};
  for (const Row& row : rows) {
    // 3.064 stands for 16 KB blocks; 8 KB blocks gave 3.167.
    EXPECT_NEAR(hbm_bytes_per_s(h200(), row.sms, row.kb), row.rate, 0.001 * row.rate)
        << row.sms << " " << row.kb;
  }
}

// More SMs must not lower the rate. (More bytes in flight may, a little: 66 SMs reach 4.27 TB/s with 64 KB
// each and 4.03 with 192.)
RC_GTEST_PROP(Memory, MoreSmsNeverLowerTheRate, ()) {
  const double kb = *rc::gen::inRange(1, 220), sms = *rc::gen::inRange(1, 128);
  RC_ASSERT(hbm_bytes_per_s(h200(), sms, kb) <= hbm_bytes_per_s(h200(), sms + 4, kb) * 1.0005);
}

// L2 hits that overlap HBM misses for free, or count twice: the main loops measured with one operand from HBM
// and the other from L2 (grid 132, two warpgroups, deepest ring), which the constants were not taken from.
TEST(Memory, HitsAndMissesAddAsInTheMeasuredMainLoops) {
  struct Row {
    double hbm_kb, l2_kb, cycles, mhz;
  };
  const Row rows[] = {
      {16, 16, 1199.2, 1762}, {16, 24, 1075.1, 1492}, {16, 32, 1123.5, 1363},   // A from HBM, BN 128..256
      {24, 16, 1606.8, 1736}, {32, 16, 1823.1, 1556}, {16, 16, 1225.1, 1782}};  // B from HBM
  for (const Row& row : rows) {
    Traffic traffic;
    traffic.hbm_read = row.hbm_kb * 1024 * 132;
    traffic.l2_read = row.l2_kb * 1024 * 132;
    const double measured = row.cycles / (row.mhz * 1e6);
    EXPECT_NEAR(memory_seconds(h200(), traffic, 132, 128), measured, 0.11 * measured)
        << row.hbm_kb << " " << row.l2_kb;
  }
}

// Bytes lost or counted twice: over all tiles, each active expert's weights come from HBM exactly once, each
// output is written once, and what TMA moves is what HBM and L2 give (padding of the last boxes aside).
RC_GTEST_PROP(Memory, TrafficOfAllTilesAddsUp, ()) {
  const auto layout = *any_layout();
  const GemmShape gemm = gemm_shape(layout, 128 * *rc::gen::inRange<std::int64_t>(1, 6),
                                    128 * *rc::gen::inRange<std::int64_t>(1, 9));
  ExpertLoad load{*any_rows(10, 300)};
  const TileTraffic of(h200(), gemm, load);
  Traffic sum;
  for_each_tile(gemm, load, [&](const Tile& tile) { sum += of(tile); });
  double weights = 0, panels = 0;
  for (std::int64_t rows : load.rows) {
    if (rows > 0) weights += double(gemm.n * gemm.k);
    panels += double(gemm.blocks(rows) * gemm.n * gemm.k);
  }
  RC_ASSERT(sum.hbm_read == weights);  // the tokens lie in L2
  RC_ASSERT(sum.l2_read == panels - weights + double(load.total() * gemm.k * gemm.panels()));
  RC_ASSERT(sum.l2_written + sum.hbm_written == 2.0 * double(load.total() * gemm.n));
}

// Tokens that the kernel before has just written must not be charged to HBM, and those too many to stay must
// be.
TEST(Memory, WarmTokensComeFromL2WhileTheyFit) {
  const GemmShape gemm = gemm_shape({Layout::swap_ab, 64}, 512, 7168);
  ExpertLoad load{{64, 64}};
  const Tile first{0, 0, 0, 64, 128};
  EXPECT_EQ(TileTraffic(h200(), gemm, load)(first).hbm_read, 128.0 * 7168);
  load.rows = {64, 100000};
  EXPECT_EQ(TileTraffic(h200(), gemm, load)(first).hbm_read, (128.0 + 64) * 7168);
}

}  // namespace
}  // namespace moe::sim
