// How good is shrinking? Faults that are conditions on a case, with their known smallest triggers: the random cases find
// each, and what is left after shrinking is not much larger than the trigger. Prints runs and distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "fixtures/problem/generate.hpp"
#include "harness/propose.hpp"
#include "harness/shrink.hpp"

namespace moe::harness {
namespace {

ExpertLoad load_of(const Case& c) {
  const Problem& p = c.problem;
  return routing_of(p).load(p.rank * p.shape.local_experts(), p.shape.local_experts());
}
bool is_layer(const Case& c) { return c.problem.op == Op::moe_layer; }

struct Planted {
  const char* what;
  const char* trigger;  // the smallest case, in the same words
  std::function<bool(const Case&)> fails;
};

const Planted kFaults[] = {
    {"a tail of rows behind a full tile",
     "op=moe_layer tokens=17 hidden=128 inter=128 experts=1 top_k=1 tp=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) {
       const auto rows = load_of(c).rows;
       const int block = 16;
       return is_layer(c) && std::any_of(rows.begin(), rows.end(), [&](auto r) { return r > block && r % block != 0; });
     }},
    {"an empty expert in front of one with rows",
     "op=moe_layer tokens=1 hidden=128 inter=128 experts=2 top_k=1 tp=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) {
       const auto rows = load_of(c).rows;
       return is_layer(c) && !rows.empty() && rows.front() == 0 && c.problem.shape.tokens > 0;
     }},
    {"the second k block of GEMM 1",
     "op=moe_layer tokens=1 hidden=256 inter=128 experts=1 top_k=1 tp=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) { return is_layer(c) && c.problem.shape.hidden > 128 && c.problem.shape.tokens > 0; }},
    {"more k blocks than stages",
     "op=moe_layer tokens=1 hidden=768 inter=128 experts=1 top_k=1 tp=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) { return is_layer(c) && c.problem.shape.hidden > 640 && c.problem.shape.tokens > 0; }},
    {"a slot without an expert",
     "op=moe_layer tokens=1 hidden=128 inter=128 experts=1 top_k=1 tp=1 load=uniform ids=none quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) {
       const auto ids = routing_of(c.problem).ids;
       return is_layer(c) && std::find(ids.begin(), ids.end(), -1) != ids.end();
     }},
    {"three slots of a token",
     "op=moe_layer tokens=1 hidden=128 inter=128 experts=3 top_k=3 tp=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) { return is_layer(c) && c.problem.shape.top_k >= 3 && c.problem.shape.tokens > 0; }},
    {"biases",
     "op=moe_layer tokens=1 hidden=128 inter=128 experts=1 top_k=1 tp=1 bias=1 load=uniform quant=block128 seed=1 "
     "kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) { return is_layer(c) && c.problem.shape.bias && c.problem.shape.tokens > 0; }},
    {"power-of-two scales behind two experts",
     "op=moe_layer tokens=1 hidden=128 inter=128 experts=2 top_k=1 tp=1 load=uniform quant=block128 scale_format=ue8m0 "
     "seed=1 kernel=moeproof layout=swap_ab tile=16x128x128",
     [](const Case& c) {
       return is_layer(c) && c.problem.quant.scale_format == ScaleFormat::ue8m0 && c.problem.shape.experts > 1 &&
              c.problem.shape.tokens > 0;
     }},
};

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Would catch a generator that no longer draws where faults live, and moves that stop far from the trigger.
TEST(ShrinkPower, ComesNearTheKnownTriggers) {
  constexpr int kSeeds = 20, kTrials = 200;
  std::printf("%-42s %6s %12s %10s\n", "fault", "found", "median runs", "distance");
  for (const Planted& fault : kFaults) {
    std::vector<int> runs;
    std::vector<double> distances;
    ASSERT_TRUE(fault.fails(parse_case(fault.trigger)) || std::string_view(fault.trigger).find("ids=") != std::string_view::npos);
    for (int seed = 1; seed <= kSeeds; ++seed) {
      for (int trial = 0; trial < kTrials; ++trial) {
        const Case c = propose_case({}, std::uint64_t(seed), trial);
        if (!fault.fails(c)) continue;
        const Shrunk s = shrink_case(c, fault.fails, ShrinkBudget{});
        EXPECT_FALSE(s.flaky);
        EXPECT_TRUE(fault.fails(s.smallest));
        runs.push_back(s.runs);
        distances.push_back(case_size(s.smallest) / case_size(parse_case(fault.trigger)));
        break;
      }
    }
    ASSERT_GE(runs.size(), std::size_t(kSeeds * 95 / 100)) << fault.what;
    std::printf("%-42s %3zu/%d %12d %9.2fx\n", fault.what, runs.size(), kSeeds, median(runs), median(distances));
    EXPECT_LE(median(distances), 2.0) << fault.what;
  }
}

}  // namespace
}  // namespace moe::harness
