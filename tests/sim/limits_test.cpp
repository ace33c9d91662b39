// The least that a stage can take: fewest bytes and operations.
#include "sim/limits.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "fixtures/problem/errors.hpp"

namespace moe::sim {
namespace {

Problem layer(std::int64_t hidden, std::int64_t intermediate, int experts, int top_k, int tp,
              std::int64_t tokens, QuantKind quant) {
  Problem p;
  p.shape.hidden = hidden;
  p.shape.intermediate = intermediate;
  p.shape.experts = experts;
  p.shape.top_k = top_k;
  p.shape.tp = tp;
  p.shape.tokens = tokens;
  p.quant.kind = quant;
  return p;
}

ExpertLoad spread(std::int64_t rows, int active, int experts) {
  ExpertLoad load;
  load.rows.assign(std::size_t(experts), 0);
  for (std::int64_t r = 0; r < rows; ++r) ++load.rows[std::size_t(r % active)];
  return load;
}

// The bytes that the public measurements of these shapes were counted with (the column fewest_bytes of
// fixtures/measured/h200_public_kernels.csv). Would catch a scale, an operand or an output left out or
// counted twice.
TEST(Limits, BytesAreThoseOfThePublicMeasurements) {
  const Problem deepseek = layer(7168, 2048, 256, 8, 8, 1, QuantKind::block128);
  const ExpertLoad eight = spread(8, 8, 256);
  EXPECT_EQ(fewest_work(deepseek, eight, LimitStage::gemm1).bytes, 29382880);
  EXPECT_EQ(fewest_work(deepseek, eight, LimitStage::gemm2).bytes, 14800448);
  EXPECT_EQ(fewest_work(deepseek, eight, LimitStage::layer).bytes, 44068864);
  const Problem mixtral = layer(4096, 14336, 8, 2, 1, 4096, QuantKind::tensor_static);
  const ExpertLoad all = spread(8192, 8, 8);
  EXPECT_EQ(fewest_work(mixtral, all, LimitStage::gemm1).bytes, 1426063360);
  EXPECT_EQ(fewest_work(mixtral, all, LimitStage::gemm1).flop, 1924145348608);
  EXPECT_EQ(fewest_work(mixtral, all, LimitStage::layer).bytes, 1476395008);
  EXPECT_EQ(fewest_work(mixtral, all, LimitStage::layer).flop, 2886218022912);
}

// GEMM 2's rows go out and come back in bf16. Would catch a staged limit below the limit, or one of a lone
// GEMM.
TEST(Limits, StagedBytesAddTheRoutedOutputTwice) {
  const Problem p = layer(2048, 768, 128, 8, 1, 16, QuantKind::block128);
  const ExpertLoad load = spread(128, 60, 128);
  const FewestWork whole = fewest_work(p, load, LimitStage::layer);
  EXPECT_EQ(whole.staged_bytes - whole.bytes, 2.0 * 128 * 2048 * 2);
  const FewestWork gemm = fewest_work(p, load, LimitStage::gemm2);
  EXPECT_EQ(gemm.staged_bytes, gemm.bytes);
}

// More rows on the same experts cost no less, and the limit is the larger of its two sides. Would catch a
// limit that falls with work, or that adds what overlaps.
RC_GTEST_PROP(Limits, GrowWithRows, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(8, 4000);
  const auto more = *rc::gen::inRange<std::int64_t>(0, 4000);
  const auto stage = *rc::gen::element(LimitStage::gemm1, LimitStage::gemm2, LimitStage::layer);
  Problem p = layer(1024, 512, 8, 2, 1, (rows + 1) / 2, QuantKind::token_channel);
  const FewestWork few = fewest_work(p, spread(rows, 8, 8), stage);
  p.shape.tokens = (rows + more + 1) / 2;
  const FewestWork many = fewest_work(p, spread(rows + more, 8, 8), stage);
  RC_ASSERT(many.bytes >= few.bytes && many.flop >= few.flop);
  const Ceilings c = h200_ceilings(p.quant);
  const double limit = limit_seconds(many.bytes, many.flop, c);
  RC_ASSERT(limit == std::max(many.bytes / c.bytes_per_s, many.flop / c.flop_per_s));
}

TEST(Limits, AreOfLayersAlone) {
  Problem p = layer(1024, 512, 8, 2, 1, 4, QuantKind::block128);
  p.op = Op::combine;
  EXPECT_THROW(fewest_work(p, spread(8, 8, 8), LimitStage::layer), BadInput);
}

}  // namespace
}  // namespace moe::sim
