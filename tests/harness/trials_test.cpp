#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "harness/propose.hpp"
#include "harness/shrink.hpp"

namespace moe::harness {
namespace {

// Proposals are valid, settled, printable, and the same for the same seed and number.
TEST(Trials, ProposalsAreValidAndRepeat) {
  std::set<std::string> lines;
  std::set<int> layouts, kinds;
  bool idle = false;
  for (int trial = 0; trial < 120; ++trial) {
    const Case c = propose_case({}, 7, trial);
    EXPECT_NO_THROW(validate(c.problem)) << to_line(c);
    EXPECT_FALSE(c.choice.tile.automatic());
    EXPECT_EQ(parse_case(to_line(c)), c);
    EXPECT_EQ(propose_case({}, 7, trial), c);
    lines.insert(to_line(c));
    layouts.insert(int(c.choice.layout));
    kinds.insert(int(c.problem.quant.kind));
    idle = idle || c.problem.shape.tokens == 0;
  }
  EXPECT_GT(lines.size(), 115u);
  EXPECT_EQ(layouts.size(), 3u);
  EXPECT_EQ(kinds.size(), 4u);
  EXPECT_TRUE(idle);
  EXPECT_NE(to_line(propose_case({}, 7, 3)), to_line(propose_case({}, 8, 3)));
}

// Catches: a run of few trials that leaves out a layout, a scheme or the contracts of grouped GEMMs (the
// first draws of a generator that grows with its size are all alike).
RC_GTEST_PROP(Trials, FewTrialsSpanLayoutsSchemesAndContracts, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  std::set<Layout> layouts;
  std::set<QuantKind> kinds;
  std::set<Contract> contracts;
  std::int64_t longest = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const Case c = propose_case({}, seed, trial);
    if (trial < 3) layouts.insert(c.choice.layout);
    kinds.insert(c.problem.quant.kind);
    if (c.problem.op == Op::grouped_gemm) contracts.insert(c.problem.contract);
    longest = std::max(longest, c.problem.shape.hidden);
  }
  RC_ASSERT(layouts.size() == 3u);
  RC_ASSERT(kinds.size() == 4u);
  RC_ASSERT(contracts.size() == 4u);
  RC_ASSERT(longest > 128);
}

// Catches: random cases that a foreign kernel has already said it refuses.
RC_GTEST_PROP(Trials, AForeignKernelIsAskedWhatItTakes, ()) {
  ProposalFrame frame;
  frame.plain = true;
  frame.quants = {QuantKind::token_channel};
  frame.contracts = {Contract::masked};
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (int trial = 0; trial < 12; ++trial) {
    const Problem p = propose_case(frame, seed, trial).problem;
    RC_ASSERT(p.quant.kind == QuantKind::token_channel);
    RC_ASSERT(p.op != Op::grouped_gemm || p.contract == Contract::masked);
    RC_ASSERT(p.shape.activation == Activation::silu_mul && !p.shape.bias && !p.shape.weight_on_input);
  }
}

// Catches: few trials without what hides whole classes of faults: another rank's experts in the one contract
// that has their rows and in combine, a rank whose experts do not begin at 0, heads with both formats of
// scales.
RC_GTEST_PROP(Trials, RanksAndHeadsAreDrawn, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  bool routed = false, combine = false, second = false;
  std::set<ScaleFormat> formats;
  for (int trial = 0; trial < 120; ++trial) {
    const Problem p = propose_case({}, seed, trial).problem;
    const bool ranks = p.shape.ep > 1;
    routed = routed || (ranks && p.op == Op::grouped_gemm && p.contract == Contract::routed);
    combine = combine || (ranks && p.op == Op::combine && p.rank == 0);
    second = second || (ranks && p.op == Op::moe_layer && p.rank == 1);
    if (p.op == Op::inv_rope_quant) formats.insert(p.quant.scale_format);
  }
  RC_ASSERT(int(routed) + int(second) >= 1);  // each is missing once in a few hundred seeds
  RC_ASSERT(combine);
  RC_ASSERT(formats.size() == 2u);
}

// Catches: a kernel with few tiles that is asked few layers; a case of two tiles that is tried with one
// although another pair is there; a choice that differs between two runs.
TEST(Trials, OtherChoicesAreAllTiles) {
  Case c = parse_case(
      "op=moe_layer tokens=9 hidden=128 inter=128 experts=2 top_k=1 tp=1 load=uniform quant=block128 seed=5 "
      "kernel=moeproof layout=normal_wgmma tile=64x128x128 tile_down=128x128x128");
  const auto same = [](const Choice& o) { return o.tile == o.tile_down; };
  const std::vector<Choice> all = other_choices(c);
  EXPECT_EQ(all.size(), 3u * 3 + 3u * 3 + 6u * 6);
  EXPECT_TRUE(std::is_partitioned(all.begin(), all.end(), [&](const Choice& o) { return !same(o); }));
  EXPECT_EQ(std::count_if(all.begin(), all.end(), same), 12);
  EXPECT_EQ(all, other_choices(c));
  c.choice.tile_down = c.choice.tile;
  EXPECT_TRUE(same(other_choices(c).front()));
  c.problem.op = Op::grouped_gemm;
  EXPECT_EQ(other_choices(c).size(), 12u);
  c.problem.op = Op::topk;
  EXPECT_TRUE(other_choices(c).empty());
}

// A fault that needs K > 128 and three tokens must come out as exactly that.
TEST(Trials, ShrinkingFindsTheTrigger) {
  Case big;
  big.problem.shape = {.tokens = 100, .hidden = 1024, .intermediate = 512, .experts = 16, .top_k = 4};
  big.problem.routing.load = parse_load("zipf:1.2");
  const auto fails = [](const Case& c) {
    return c.problem.shape.hidden > 128 && c.problem.shape.tokens >= 3;
  };
  const Shrunk s = shrink_case(big, fails, {200, [] { return false; }});
  EXPECT_FALSE(s.flaky);
  EXPECT_EQ(s.smallest.problem.shape.tokens, 3);
  EXPECT_EQ(s.smallest.problem.shape.hidden, 256);
  EXPECT_EQ(s.smallest.problem.shape.experts, 1);
  EXPECT_EQ(s.smallest.problem.shape.top_k, 1);
  EXPECT_EQ(s.smallest.problem.routing.load, LoadSpec{});
}

// Catches: a race that shrinks to a wrong number, one stage's fault to another's, one exception to another;
// and sizes or places taken for another way to fail, with which nothing would shrink.
TEST(Trials, FailuresOfAKindAreTold) {
  const auto kind = [](Correctness word, const char* reason) {
    Verdict v;
    v.correctness = word;
    v.reason = reason;
    return failure_kind(v);
  };
  const Correctness failed = Correctness::failed, crashed = Correctness::crashed;
  const std::string gemm1 = kind(failed, "3 of 512 elements of gemm1 are wrong; worst row 7 column 9");
  EXPECT_EQ(gemm1, kind(failed, "1 of 8 elements of gemm1 are wrong: outside the probable bound"));
  EXPECT_NE(gemm1, kind(failed, "3 of 512 elements of gemm2 are wrong; worst row 7 column 9"));
  EXPECT_NE(gemm1, kind(crashed, "ended by signal 11 (Segmentation fault)"));
  EXPECT_NE(gemm1, kind(failed, "two runs gave different bytes"));
  EXPECT_EQ(kind(failed, "'c' is [4, 9, 255]: it has 255 columns where 256 are due"),
            kind(failed, "'c' is [1, 2, 127]: it has 127 columns where 128 are due"));
  EXPECT_NE(kind(crashed, "the kernel raised ValueError: no tile for M 9"),
            kind(crashed, "the kernel raised IndexError: index 9 of 8"));
}

TEST(Trials, AFailureThatDoesNotRepeatIsFlaky) {
  const Shrunk s = shrink_case(Case{}, [](const Case&) { return false; }, {});
  EXPECT_TRUE(s.flaky);
  EXPECT_EQ(s.runs, 1);
}

// Would catch a shrinker that never ends, or that returns a case which passes.
RC_GTEST_PROP(Trials, TheBudgetEndsShrinking, ()) {
  const Case c = propose_case({}, *rc::gen::inRange<std::uint64_t>(0, 1000), 60);
  const int budget = *rc::gen::inRange(1, 40);
  int runs = 0;
  const auto fails = [&](const Case& x) {
    return ++runs, x.problem.shape.tokens * 3 >= c.problem.shape.tokens;
  };
  const Shrunk s = shrink_case(c, fails, {budget, [] { return false; }});
  RC_ASSERT(runs <= budget);
  RC_ASSERT(s.smallest.problem.shape.tokens * 3 >= c.problem.shape.tokens);
  validate(s.smallest.problem);
}

}  // namespace
}  // namespace moe::harness
