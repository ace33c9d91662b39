// Is a case that memory cannot hold refused before it is begun, with what would fit; and is what the system
// says of its memory read right?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "harness/host_memory.hpp"
#include "harness/memory_need.hpp"
#include "harness/run_problem.hpp"

namespace moe::harness {
namespace {

namespace fs = std::filesystem;

Problem layer(std::int64_t tokens) {
  Problem p;
  p.shape.tokens = tokens, p.shape.hidden = 1024, p.shape.intermediate = 512;
  p.shape.experts = 8, p.shape.top_k = 2;
  return p;
}

ExpertLoad even(const Problem& p) {
  return {std::vector<std::int64_t>(std::size_t(p.shape.experts), p.shape.pairs() / p.shape.experts)};
}

constexpr double kCodes = 8.0 * 3 * 1024 * 512;  // w13 and w2 of all experts

// Catches: weights of experts without rows counted; a copy of them forgotten (the emulated card's, the
// worker's).
TEST(MemoryNeed, CountsTheWeightsThatAreDrawn) {
  const Problem p = layer(64);
  const auto weights = [&](const MemoryUse& use, ExpertLoad load) {
    return memory_need(p, load, use).weights;
  };
  EXPECT_NEAR(weights({"reference"}, even(p)), kCodes, 0.05 * kCodes);
  EXPECT_NEAR(weights({"emulated"}, even(p)), 2 * kCodes, 0.1 * kCodes);
  EXPECT_NEAR(weights({"emulated", true}, even(p)), 3 * kCodes, 0.1 * kCodes);
  EXPECT_NEAR(weights({"reference"}, {{128, 0, 0, 0, 0, 0, 0, 0}}), kCodes / 8, 0.05 * kCodes);
  EXPECT_GE(memory_need(p, even(p), {"cuda"}).card, kCodes);
  EXPECT_GT(memory_need(p, even(p), {"cuda", true, true}).card, 2 * kCodes);  // sets that L2 cannot hold
  EXPECT_EQ(memory_need(p, even(p), {"emulated"}).card, 0);
}

// Catches: a part of the estimate that does not grow with the tokens, or a budget that does not limit the
// judge.
RC_GTEST_PROP(MemoryNeed, GrowsWithTokensAndBudget, ()) {
  const std::int64_t tokens = 8 * *rc::gen::inRange<std::int64_t>(1, 100'000);
  const MemoryUse use{*rc::gen::element<std::string>("reference", "emulated", "cuda"),
                      *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(),
                      double(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000))};
  const Problem less = layer(tokens), more = layer(2 * tokens);
  const MemoryNeed a = memory_need(less, even(less), use), b = memory_need(more, even(more), use);
  RC_ASSERT(b.activations > a.activations && b.judging >= a.judging && b.weights == a.weights);
  RC_ASSERT(a.activations >=
            double(tokens) * (2 * 1024 + 2 * (2 * 1024 + 512 + 2 * 1024)));  // hidden, gemm1, act, gemm2
  MemoryUse poorer = use;
  poorer.judge_budget /= 2;
  RC_ASSERT(memory_need(less, even(less), poorer).judging <= a.judging);
}

// Catches: a refusal of what fits, a case let through that does not, advice that would be refused again.
RC_GTEST_PROP(MemoryRefusal, SaysWhatWouldFit, ()) {
  const Problem p = layer(8 * *rc::gen::inRange<std::int64_t>(1, 10'000));
  const MemoryUse use{"emulated", false, false, false, 2e9};
  const MemoryNeed need = memory_need(p, even(p), use);
  RC_ASSERT(memory_refusal(p, even(p), use, {need.host()}).empty());
  RC_ASSERT(memory_refusal(p, even(p), use, {}).empty());
  const double room = need.host() * *rc::gen::inRange(1, 100) / 100.0;
  const std::string line = memory_refusal(p, even(p), use, {room});
  RC_ASSERT(!line.empty() && line.find('\n') == std::string::npos);
  const auto at = line.find("; ");
  RC_ASSERT(at != std::string::npos);
  if (const auto tokens = std::atoll(line.c_str() + at + 2); tokens > 0) {
    const Problem fits = layer(tokens / 8 * 8);
    if (fits.shape.tokens > 0) RC_ASSERT(memory_refusal(fits, even(fits), use, {room}).empty());
  } else {
    RC_ASSERT(line.find("fewer tokens are not enough") != std::string::npos);
  }
}

// The line itself, and the card's.
TEST(MemoryRefusal, NamesNeedAndRoom) {
  Problem p = layer(1 << 20);
  p.shape.hidden *= 4, p.shape.intermediate *= 4;
  const std::string line = memory_refusal(p, even(p), {"emulated"}, {20e9});
  EXPECT_TRUE(line.starts_with("needs ")) << line;
  for (const char* words : {" GB of memory (0.4 GB weights, ", " GB to judge), 20.0 GB are available; ",
                            " tokens would fit; a larger --tp or --ep needs less"})
    EXPECT_NE(line.find(words), std::string::npos) << line;
  const std::string card = memory_refusal(p, even(p), {"cuda"}, {1e15, 5e9});
  EXPECT_NE(card.find(" GB of the card's memory, 5.0 GB are free; "), std::string::npos) << card;
}

// Catches: the budget named although the weights alone are too much, or not named although it alone decides.
TEST(MemoryRefusal, NamesTheBudgetWhereItDecides) {
  const Problem p = layer(1 << 16);
  MemoryUse use{"reference", false, false, false, 1e18};
  MemoryUse unjudged = use;
  unjudged.judge_budget = 0;
  const double least = memory_need(p, even(p), unjudged).host();
  ASSERT_LT(least, memory_need(p, even(p), use).host());
  const auto names = [&](double room) {
    return memory_refusal(p, even(p), use, {room}).find("--judge-budget") != std::string::npos;
  };
  EXPECT_TRUE(names(least));
  EXPECT_FALSE(names(0.9 * least));
}

// Catches: inputs made, or the executor opened, before the refusal; one of the choices forgotten.
TEST(MemoryRefusal, ComesBeforeAnythingIsMade) {
  struct Untouchable : device::Executor {
    std::string_view name() const override { return "emulated"; }
    std::vector<KernelInfo> kernels() const override { return {}; }
    device::Opened open(const Case&) override { throw std::logic_error("opened"); }
  } executor;
  RunPlan plan;
  plan.executor = &executor;
  plan.room.host = 1e12;
  Problem p = layer(64);
  p.shape.hidden = 1 << 20, p.shape.intermediate = 1 << 20;  // 26 TB of weights
  Choice mma;
  mma.layout = Layout::normal_mma;
  const auto records = run_problem(p, {Choice{}, mma}, plan);
  ASSERT_EQ(records.size(), 2u);
  for (const CaseRecord& r : records) {
    EXPECT_EQ(r.verdict->correctness, Correctness::refused);
    EXPECT_NE(r.verdict->reason.find("1000.0 GB are available"), std::string::npos) << r.verdict->reason;
    EXPECT_NE(r.verdict->replay.find("check --executor emulated"), std::string::npos);
  }
}

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moeproof_memory_" + std::to_string(::getpid()) +
                                         testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double room() const { return available_host_memory(root_); }
  fs::path root_;
};

// Catches: kilobytes for bytes, MemFree or MemTotal for what can be freed; a machine that says nothing
// refusing all.
TEST_F(HostMemory, IsWhatTheSystemHasOrCanFree) {
  EXPECT_EQ(room(), std::numeric_limits<double>::infinity());
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:   100 kB\nMemAvailable:   4000 kB\n");
  EXPECT_EQ(room(), 4000 * 1024.0);
  EXPECT_GT(available_host_memory(), 1e6);  // this machine's
}

// Catches: a limit of the group, or of one above it, that is not seen; page cache counted as used; "max" read
// as 0.
TEST_F(HostMemory, IsLimitedByControlGroups) {
  write("proc/meminfo", "MemAvailable: 1000000 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(room(), 1'024'000'000);
  write("sys/fs/cgroup/a/memory.max", "500000\n");
  write("sys/fs/cgroup/a/memory.current", "300000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 100000\ninactive_file 150000\n");
  EXPECT_EQ(room(), 350'000);
  write("sys/fs/cgroup/memory.max", "200000\n");  // a container's own, at its top
  EXPECT_EQ(room(), 200'000);
  write("proc/self/cgroup", "3:cpu:/x\n4:foo,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(room(), 0);
}

}  // namespace
}  // namespace moe::harness
