// What the built-in kernels refuse, and with which words.
#include <gtest/gtest.h>

#include "device/session/moe_session.hpp"
#include "device/session/timing.hpp"

namespace moe::device {
namespace {

Case legal_case() {
  Case c;
  c.problem.shape.hidden = 256;
  c.problem.shape.intermediate = 128;
  c.problem.shape.experts = 8;
  c.problem.shape.top_k = 2;
  c.choice.tile = {16, 128};
  c.choice.tile_down = c.choice.tile;
  return c;
}

void expect_refusal(const Case& c, const std::vector<std::string>& words) {
  const std::string refusal = refuse_case(c);
  for (const std::string& word : words)
    EXPECT_NE(refusal.find(word), std::string::npos) << word << " in: " << refusal;
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
}

// Would catch: a case that crashes in a launch because nobody said no, or a refusal that does not say what is
// right.
TEST(Support, RefusalsNameWhatIsRight) {
  EXPECT_EQ(refuse_case(legal_case()), "");
  Case c = legal_case();
  c.choice.tile.block_m = 24;
  expect_refusal(c, {"24", "built are 8x64x128, 8x128x128, 16x128x128, 32x128x128"});
  c = legal_case();
  c.choice.layout = Layout::normal_mma;
  c.choice.tile_down.block_m = 64;
  expect_refusal(c, {"64", "built are 16x64x128, 16x128x128, 32x128x128"});
  c = legal_case();
  c.choice.tile = {128, 256, 128, 8};
  expect_refusal(c, {"393216", "232448", "227 KB"});
  c = legal_case();
  c.choice.tile.split_k = 2;
  expect_refusal(c, {"split_k"});
  c = legal_case();
  c.choice.tile.stages = 3;
  expect_refusal(c, {"3", "stages"});
  c = legal_case();
  c.problem.shape.experts = 1024;
  expect_refusal(c, {"512", "1024"});
  c = legal_case();
  c.choice.kernel = "vllm";
  expect_refusal(c, {"vllm", "moeproof"});
}

// Would catch: Semantics that judge f16 mma as wgmma, or a chain that restarts elsewhere.
TEST(Support, SemanticsFollowTheLayout) {
  const KernelInfo info = moeproof_kernel();
  Case c = legal_case();
  EXPECT_EQ(info.semantics(c.problem, c.choice)->accumulator, Accumulator::wgmma);
  c.choice.layout = Layout::normal_mma;
  const Semantics mma = *info.semantics(c.problem, c.choice);
  EXPECT_EQ(mma.accumulator, Accumulator::hmma);
  EXPECT_EQ(mma.hmma_order, HmmaOrder::contiguous);
  EXPECT_EQ(mma.promote_k, 128);
}

// Would catch: an automatic tile that stays open in the replay line.
TEST(Support, AutomaticTilesAreResolved) {
  Case c = legal_case();
  c.problem.shape.tokens = 64;
  c.choice.tile = c.choice.tile_down = {};
  const Case resolved = resolve_case(c);
  EXPECT_FALSE(resolved.choice.tile.automatic());
  EXPECT_FALSE(resolved.choice.tile_down.automatic());
  EXPECT_EQ(refuse_case(resolved), "");
}

// Would catch: too few sets, so that a "cold" run finds weights in L2.
TEST(Timing, WeightSetsExceedL2Twice) {
  for (std::int64_t bytes : {1'000'000ll, 40'000'000ll, 119'000'000ll, 900'000'000ll}) {
    const int sets = weight_sets_for(bytes);
    EXPECT_GE((sets - 1) * bytes, std::min<std::int64_t>(120'000'000, 31 * bytes)) << bytes;
  }
  EXPECT_EQ(weight_sets_for(0), 1);
}

}  // namespace
}  // namespace moe::device
