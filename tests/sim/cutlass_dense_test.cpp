// CUTLASS's dense GEMM with block scales, and the conditions that a kernel is timed under.
#include "sim/cutlass_dense.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fixtures/problem/errors.hpp"
#include "sim/conditions.hpp"
#include "sim/naive.hpp"
#include "sim/predict.hpp"
#include "tests/sim/support.hpp"

namespace moe::sim {
namespace {

Problem dense(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p;
  p.op = Op::grouped_gemm;
  p.shape.tokens = m;
  p.shape.hidden = k;
  p.shape.intermediate = n;
  p.shape.experts = p.shape.top_k = 1;
  p.shape.activation = Activation::relu2;
  return p;
}

Prediction predicted(std::int64_t m, std::int64_t n, std::int64_t k, const Hardware& hw = h200()) {
  Choice choice;
  choice.kernel = kCutlassDenseKernel;
  return predict(dense(m, n, k), choice, hw, ExpertLoad{{m}});
}

// Counts in closed form; would catch a padded panel that is counted as work, and a wave too many.
TEST(CutlassDense, CountsTilesAndInstructions) {
  const Prediction p = predicted(300, 384, 1024);  // 3 x 3 tiles on 3 x 2 clusters of two
  EXPECT_EQ(p.counts.tiles, 9);
  EXPECT_EQ(p.counts.ctas, 12);
  EXPECT_EQ(p.counts.wgmma.at(128), 9 * 8 * 8);
  EXPECT_NEAR(p.useful_flop, 300.0 / 384, 1e-9);
}

// More of anything never takes less time, while the output stays in L2 (what leaves it is written faster than
// what does not). Would catch a wave that is dropped and bytes that go below zero.
RC_GTEST_PROP(CutlassDense, GrowsWithEverySize, ()) {
  const auto size =
      rc::gen::map(rc::gen::inRange<std::int64_t>(1, 20), [](std::int64_t x) { return 128 * x; });
  const std::int64_t m = *size, n = *size, k = *size;
  const double seconds = predicted(m, n, k).seconds;
  RC_ASSERT(predicted(2 * m, n, k).seconds >= seconds * 0.99);
  RC_ASSERT(predicted(m, n, 2 * k).seconds > seconds);
  RC_ASSERT(predicted(m, n + 2 * 128, k).seconds >= seconds * 0.99);
}

// A long GEMM runs at the measured time of a k-block: 610 cycles (mainloop,promo,W=1,BN=128). Would catch a
// k-block that waits for another's loader or memory.
TEST(CutlassDense, LongTilesCostTheirKblocks) {
  const double difference = predicted(128, 128, 65536).seconds - predicted(128, 128, 32768).seconds;
  EXPECT_GE(difference, 256 * 610.2 / 1.8e9 * 0.999);
  EXPECT_LE(difference,
            256 * 610.2 / 1.8e9 * 1.05);  // a single SM fetches a k-block in 0.28 us, math takes 0.34
}

TEST(CutlassDense, RefusesWhatItIsNot) {
  Choice choice;
  choice.kernel = kCutlassDenseKernel;
  Problem layer = deepseek_v3(4);
  EXPECT_THROW(predict(layer, choice, h200(), ExpertLoad{{4}}), BadInput);
  Problem p = dense(4, 128, 128);
  p.quant.kind = QuantKind::tensor_static;
  EXPECT_THROW(predict(p, choice, h200(), ExpertLoad{{4}}), BadInput);
  choice.tile = parse_tile("64x128x128");
  EXPECT_THROW(predict(dense(4, 128, 128), choice, h200(), ExpertLoad{{4}}), BadInput);
}

// Warm inputs, a capped clock and a stream change what they should and nothing else. Would catch a condition
// that is ignored, and one that makes the card faster than it is.
TEST(Conditions, GiveTheCardAsItIsFound) {
  const Hardware same = under(h200(), {}, 1e6);
  EXPECT_EQ(same.hbm_latency_s, h200().hbm_latency_s);
  EXPECT_EQ(same.tensor_hz, h200().tensor_hz);
  const Hardware warm = under(h200(), {.warm = true}, 20e6), cold = under(h200(), {.warm = true}, 100e6);
  EXPECT_EQ(warm.hbm_latency_s, h200().l2_latency_s);
  EXPECT_LT(warm.small_kernel_s, h200().small_kernel_s);
  EXPECT_EQ(cold.hbm_latency_s, h200().hbm_latency_s);
  const Hardware capped = under(h200(), {.capped = true}, 0);
  EXPECT_EQ(capped.tensor_hz, h200().clock_by_tensor_load.at(1));
  EXPECT_LT(capped.l2_shared_bytes_per_s, h200().l2_shared_bytes_per_s);
  EXPECT_EQ(under(h200(), {.stream = true}, 0).graph_node_s, h200().launch_s);
  EXPECT_LT(predicted(128, 4096, 4096, warm).seconds, predicted(128, 4096, 4096, cold).seconds);
  EXPECT_GT(predicted(8192, 4096, 4096, capped).seconds, predicted(8192, 4096, 4096).seconds);
}

// Weights of active experts only; an idle expert's stay where they are.
TEST(Conditions, FootprintCountsActiveExperts) {
  Problem p = layer_problem(1024, 512, 8, 1, 1, 2);
  const double two = footprint_bytes(p, ExpertLoad{{1, 1, 0, 0, 0, 0, 0, 0}});
  const double one = footprint_bytes(p, ExpertLoad{{2, 0, 0, 0, 0, 0, 0, 0}});
  EXPECT_EQ(two - one, (2 * 512 + 512) * 1024.0);
}

// Its definition, by hand: 2 waves of 128x128 tiles and 4 us.
TEST(Naive, IsWavesOfTiles) {
  const double wave = 2.0 * 128 * 128 * 4096 / (8192 * 1.4e9);
  EXPECT_NEAR(naive_dense_seconds(128 * 12, 128 * 12, 4096), 2 * wave + 4e-6, 1e-12);
}

}  // namespace
}  // namespace moe::sim
