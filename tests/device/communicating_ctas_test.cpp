// CTAs that wait for each other and kernels that begin early: right ones are right and clean in every order,
// and what they forget is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/device/emulator_fixture.hpp"
#include "tests/device/kernels/grid_sync_params.hpp"

namespace moe::test {
namespace {

using namespace device::emulator;

constexpr unsigned kCtas = 4;

struct GridProblem {
  GlobalMemory memory;
  Emulator emulator{memory};
  GridSyncParams params{};
  GridProblem() {
    const std::size_t words = kCtas * kSliceWords;
    auto* in = static_cast<std::uint32_t*>(memory.allocate(4 * words, "in", true));
    for (std::size_t i = 0; i < words; ++i) in[i] = std::uint32_t(i * i + 3);
    params.in = in;
    params.middle = static_cast<std::uint32_t*>(memory.allocate(4 * words, "middle"));
    params.out = static_cast<std::uint32_t*>(memory.allocate(4 * words, "out"));
    params.counters = static_cast<std::uint32_t*>(memory.allocate(32, "counters"));
  }
  LaunchResult run(GridFault fault, const Options& o, bool cooperative = true) {
    std::memset(params.counters, 0, 32);
    std::memset(params.out, 0, 4 * kCtas * kSliceWords);
    Launch l{grid_sync(fault), &params, sizeof params, kCtas, unsigned(kGridSyncThreads), kGridSyncShared};
    l.cooperative = cooperative;
    return emulator.launch(l, o);
  }
  bool right() const {
    for (unsigned i = 0; i < kCtas * kSliceWords; ++i) {
      const unsigned cta = i / kSliceWords, from = (cta + 1) % kCtas * kSliceWords + i % kSliceWords;
      if (params.out[i] != 2 * (params.in[from] + 1) || params.middle[i] != 7) return false;
    }
    return true;
  }
};

Options order(int seed) {
  Options o;
  if (seed >= 0) o = Options::adversarial(std::uint64_t(seed), integer_arithmetic());
  o.arithmetic = integer_arithmetic();
  return o;
}

bool names(const LaunchResult& r, const std::set<std::string>& checks) {
  return std::any_of(r.reports.begin(), r.reports.end(),
                     [&](const Report& x) { return checks.contains(x.check); });
}

// Catches: false alarms of the order between CTAs (acquire that learns too little, fences that pass nothing
// on), a lost wake-up of a polling thread, copies that are taken for unordered.
TEST(CommunicatingCtas, RightKernelsAreRightAndCleanInEveryOrder) {
  for (GridFault fault : {GridFault::none, GridFault::fenced_volatile, GridFault::by_copy, GridFault::flags})
    for (int seed = -1; seed < 40; ++seed) {
      GridProblem problem;
      const LaunchResult r = problem.run(fault, order(seed));
      ASSERT_TRUE(r.clean()) << int(fault) << " seed " << seed << "\n" << all_sentences(r);
      ASSERT_TRUE(problem.right()) << int(fault) << " seed " << seed;
      ASSERT_EQ(r.counts.ctas, kCtas);
    }
}

struct PlantedInGrid {
  GridFault fault;
  const char* name;
  std::set<std::string> checks;
};
void PrintTo(const PlantedInGrid& p, std::ostream* out) { *out << p.name; }
const PlantedInGrid kInGrid[] = {
    {GridFault::missing_barrier, "missing_barrier", {"cta-race"}},
    {GridFault::relaxed_arrival, "relaxed_arrival", {"cta-race"}},
    {GridFault::volatile_without_fence, "volatile_without_fence", {"cta-race"}},
    {GridFault::arrival_before_cta_sync, "arrival_before_cta_sync", {"cta-race"}},
    {GridFault::no_cta_sync_after_wait, "no_cta_sync_after_wait", {"cta-race", "race"}},
    {GridFault::goal_too_small, "goal_too_small", {"cta-race"}},
    {GridFault::goal_too_large, "goal_too_large", {"deadlock"}},
    {GridFault::overwrite_without_barrier, "overwrite_without_barrier", {"cta-race"}},
    {GridFault::copy_without_proxy_fence, "copy_without_proxy_fence", {"missing-proxy-fence"}},
    {GridFault::copy_behind_shared_fence, "copy_behind_shared_fence", {"missing-proxy-fence"}},
    {GridFault::bulk_store_only_read, "bulk_store_only_read", {"cta-race"}},
};

class PlantedBetweenCtas : public testing::TestWithParam<PlantedInGrid> {};
INSTANTIATE_TEST_SUITE_P(Grid, PlantedBetweenCtas, testing::ValuesIn(kInGrid),
                         [](const auto& info) { return std::string(info.param.name); });

// Catches: a rule between CTAs that is not enforced, in the plain order or under some seed. A CTA that waits
// for too few is found where it goes on too early, and not where all had arrived anyway.
TEST_P(PlantedBetweenCtas, IsFoundInEveryOrder) {
  int found = 0;
  for (int seed = -1; seed < 25; ++seed) {
    GridProblem problem;
    const LaunchResult r = problem.run(GetParam().fault, order(seed));
    const bool finds = names(r, GetParam().checks);
    found += finds;
    EXPECT_TRUE(finds || (seed >= 0 && GetParam().fault == GridFault::goal_too_small))
        << "seed " << seed << "\n"
        << all_sentences(r);
  }
  EXPECT_GE(found, 13);
}

// Catches: a group whose runs depend on more than the seed.
TEST(CommunicatingCtas, SameSeedSameRun) {
  for (int seed = 0; seed < 10; ++seed) {
    std::string first;
    for (int threads : {1, 4}) {
      GridProblem problem;
      Options o = order(seed);
      o.threads = threads;
      const LaunchResult r = problem.run(GridFault::missing_barrier, o);
      const std::string text = all_sentences(r) + std::to_string(r.switches);
      if (first.empty()) first = text;
      EXPECT_EQ(text, first);
    }
  }
}

// Catches: a deadlock between CTAs that does not say who waits for which word and what it holds.
TEST(CommunicatingCtas, DeadlockNamesTheWord) {
  GridProblem problem;
  const LaunchResult r = problem.run(GridFault::goal_too_large, order(-1));
  ASSERT_TRUE(r.deadlock);
  const std::string text = all_sentences(r);
  EXPECT_NE(text.find("another value of byte 0 of 'counters', which holds 4"), std::string::npos) << text;
  EXPECT_NE(text.find("3 more CTA(s) wait too"), std::string::npos) << text;
}

// Catches: CTAs that wait for each other in a launch that does not promise that all of them run at once.
TEST(CommunicatingCtas, WaitingWithoutACooperativeLaunchIsFound) {
  GridProblem problem;
  const LaunchResult r = problem.run(GridFault::none, order(-1), false);
  EXPECT_FALSE(r.finished);
  EXPECT_TRUE(names(r, {"livelock"})) << all_sentences(r);
}

// ---- kernels that begin before the one in front of them has ended
struct Chain {
  GlobalMemory memory;
  Emulator emulator{memory};
  std::uint32_t* words[4];
  std::uint32_t* free_words;
  Chain() {
    for (int i = 0; i < 4; ++i) {
      words[i] =
          static_cast<std::uint32_t*>(memory.allocate(4 * 2 * kChainThreads, "words" + std::to_string(i)));
      std::memset(words[i], 0, 4 * 2 * kChainThreads);
    }
    free_words = static_cast<std::uint32_t*>(memory.allocate(4 * 2 * kChainThreads, "free words"));
  }
  /// Link i reads words[from] and writes words[to].
  LaunchResult run(ChainFault fault, int from, int to, bool dependent, int seed) {
    ChainParams p{words[from], words[to]};
    Launch l{chain_link(fault), &p, sizeof p, 2, unsigned(kChainThreads), 0};
    l.dependent = dependent;
    l.name = "link";
    return emulator.launch(l, order(seed));
  }
};

// Catches: alarms about kernels that wait as they should, or that are not launched early.
TEST(DependentLaunches, WaitingKernelsAreClean) {
  for (int seed = -1; seed < 10; ++seed) {
    Chain chain;
    for (ChainFault fault : {ChainFault::none, ChainFault::one_thread_waits}) {
      for (int i = 0; i < 3; ++i) {
        const LaunchResult r = chain.run(fault, i, i + 1, i > 0, seed);
        EXPECT_TRUE(r.clean()) << all_sentences(r);
      }
      EXPECT_EQ(chain.words[3][5], 3u);
    }
    EXPECT_TRUE(chain.run(ChainFault::reads_before_wait, 3, 0, false, seed).clean());  // not early
    chain.emulator.synchronize();
    EXPECT_TRUE(chain.run(ChainFault::reads_before_wait, 0, 1, true, seed).clean());  // nothing in front
  }
}

// Catches: a kernel that touches what the one in front writes, or writes what that one touches, before it
// waits.
TEST(DependentLaunches, EarlyAccessesAreFound) {
  for (int seed = -1; seed < 10; ++seed)
    for (ChainFault fault :
         {ChainFault::reads_before_wait, ChainFault::never_waits, ChainFault::other_warp_waits}) {
      Chain chain;
      EXPECT_TRUE(chain.run(ChainFault::none, 0, 1, false, seed).clean());
      const LaunchResult r = chain.run(fault, 1, 2, true, seed);
      ASSERT_TRUE(names(r, {"dependent-launch"})) << int(fault) << all_sentences(r);
      EXPECT_NE(r.reports[0].text.find("of 'words1', which link, a kernel in front, writes"),
                std::string::npos)
          << r.reports[0].text;
    }
  Chain chain;  // write after read: the kernel in front still reads its input
  EXPECT_TRUE(chain.run(ChainFault::none, 0, 1, false, -1).clean());
  EXPECT_TRUE(names(chain.run(ChainFault::writes_before_wait, 2, 0, true, -1), {"dependent-launch"}));
}

// Catches: a launch two places in front that is taken for ended because the one in between has waited,
// although that one allowed this to begin before; and an alarm where it waits first.
TEST(DependentLaunches, WhatIsOlderMayBeReadEarlyIfTheKernelBetweenHasWaitedFirst) {
  for (ChainFault between : {ChainFault::none, ChainFault::waits_then_allows}) {
    const bool races = between == ChainFault::none;  // it allows the next one at once
    Chain chain;
    EXPECT_TRUE(chain.run(ChainFault::none, 0, 1, false, -1).clean());
    EXPECT_TRUE(chain.run(between, 3, 2, true, -1).clean());
    ChainParams p{chain.words[1], chain.free_words};
    Launch l{chain_link(ChainFault::reads_before_wait), &p, sizeof p, 2, unsigned(kChainThreads), 0};
    l.dependent = true;
    EXPECT_EQ(names(chain.emulator.launch(l, order(-1)), {"dependent-launch"}), races);
  }
}

// Catches: a wait that is taken to cover kernels further in front, which a kernel in between has not waited
// for.
TEST(DependentLaunches, AKernelThatNeverWaitsBreaksTheChain) {
  Chain chain;
  EXPECT_TRUE(chain.run(ChainFault::none, 0, 1, false, -1).clean());
  EXPECT_TRUE(chain.run(ChainFault::never_waits, 2, 3, true, -1).clean());  // touches nothing of the first
  const LaunchResult r = chain.run(ChainFault::none, 1, 2, true, -1);       // reads what the first writes
  ASSERT_TRUE(names(r, {"dependent-launch"})) << all_sentences(r);
  EXPECT_NE(r.reports[0].text.find("the kernel in between does not wait for it"), std::string::npos)
      << r.reports[0].text;
}

}  // namespace
}  // namespace moe::test
