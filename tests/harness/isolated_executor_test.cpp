#include "harness/isolated_executor.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "fixtures/problem/generate.hpp"
#include "harness/run_problem.hpp"
#include "tests/harness/faulty_executor.hpp"

namespace moe::harness {
namespace {

Case case_with(std::uint64_t seed) {
  Case c;
  c.problem.shape = {.tokens = 5, .hidden = 256, .intermediate = 128, .experts = 4, .top_k = 2};
  c.problem.seed = seed;
  c.choice.tile = parse_tile("8x128x128");
  return c;
}

IsolatedExecutor isolated(double seconds = 60) {
  return IsolatedExecutor(std::make_unique<FaultyExecutor>(), {MOE_FAULTY_WORKER, {}, seconds});
}

TensorSet inputs_of(const Case& c) {
  return make_inputs(c.problem, c.choice, make_routing(c.problem.routing, c.problem.shape, c.problem.seed),
                     1);
}

// Every byte, report and count must arrive as the inner executor gave it, weights drawn in the worker
// included.
TEST(IsolatedExecutor, ResultsArriveUnchanged) {
  auto executor = isolated();
  const Case c = case_with(seeds::kEcho);
  auto opened = executor.open(c);
  ASSERT_NE(opened.session, nullptr) << opened.refusal;
  EXPECT_EQ(opened.session->resolved(), c);
  const TensorSet inputs = inputs_of(c);
  opened.session->bind(inputs);
  const device::RunResult result = opened.session->run(device::RunMode::graph);
  ASSERT_EQ(result.outputs.all().size(), inputs.all().size());
  for (const Tensor& t : inputs.all()) {
    const Tensor& other = result.outputs.at(t.name());
    ASSERT_EQ(other.shape(), t.shape()) << t.name();
    EXPECT_EQ(std::memcmp(other.data(), t.data(), t.bytes()), 0) << t.name();
  }
  EXPECT_EQ(result.reports, (std::vector<std::string>{"one \"report\"\nof two lines"}));
  EXPECT_EQ(result.counts.wgmma.at(16), 42);
  device::TimingPlan plan;
  plan.samples = 7;
  EXPECT_EQ(opened.session->time(plan).seconds.size(), 7u);
}

// A changed input must reach the worker: it may not draw its own in its place.
TEST(IsolatedExecutor, GivenInputsWin) {
  auto executor = isolated();
  const Case c = case_with(seeds::kEcho);
  auto session = executor.open(c).session;
  TensorSet inputs = inputs_of(c);
  inputs.at("hidden").data()[17] ^= std::byte{0x40};
  session->bind(inputs);
  const auto result = session->run(device::RunMode::eager);
  EXPECT_EQ(result.outputs.at("hidden").data()[17], inputs.at("hidden").data()[17]);
}

void expect_lost(std::uint64_t seed, bool timed_out, const std::string& words, double seconds = 60) {
  auto executor = isolated(seconds);
  const Case c = case_with(seed);
  try {
    auto session = executor.open(c).session;
    session->bind(inputs_of(c));
    session->run(device::RunMode::eager);
    FAIL() << "the loss went unnoticed";
  } catch (const WorkerLost& lost) {
    EXPECT_EQ(lost.timed_out, timed_out);
    EXPECT_NE(std::string(lost.what()).find(words), std::string::npos) << lost.what();
  }
  // Replaced: the next case runs.
  EXPECT_NE(executor.open(case_with(seeds::kEcho)).session, nullptr);
}

TEST(IsolatedExecutor, ACrashIsNoticed) { expect_lost(seeds::kCrash, false, "signal 11"); }
TEST(IsolatedExecutor, ACrashInOpenIsNoticed) { expect_lost(seeds::kCrashInOpen, false, "signal 6"); }
TEST(IsolatedExecutor, AnExitIsNoticed) { expect_lost(seeds::kQuit, false, "exit status 5"); }
TEST(IsolatedExecutor, AHangIsEnded) { expect_lost(seeds::kHang, true, "no answer within 1 s", 1); }

TEST(IsolatedExecutor, ErrorsKeepTheirKind) {
  auto executor = isolated();
  EXPECT_EQ(executor.open(case_with(seeds::kRefuse)).refusal, "not this one");
  const Case bad = case_with(seeds::kBadInput), broken = case_with(seeds::kFailure);
  EXPECT_THROW(executor.open(bad).session->bind(inputs_of(bad)), BadInput);
  EXPECT_THROW(executor.open(broken).session->bind(inputs_of(broken)), MachineFailure);
}

TEST(IsolatedExecutor, AMissingProgramIsAMachineFailure) {
  IsolatedExecutor executor(std::make_unique<FaultyExecutor>(), {"/no/such/program", {}, 5});
  EXPECT_THROW(executor.open(case_with(seeds::kEcho)), MachineFailure);
}

// Would catch a worker that is kept behind a sticky error or a lack of memory, and a loss that reaches the
// case behind it: of thirty misfortunes each is its own case's alone.
TEST(IsolatedExecutor, ThirtyMisfortunesStayWithTheirCases) {
  auto executor = isolated();
  const std::uint64_t kinds[] = {seeds::kCrash, seeds::kQuit, seeds::kSticky, seeds::kNoMemory,
                                 seeds::kCrashInOpen};
  const Case good = case_with(seeds::kEcho);
  int lost = 0;
  for (int i = 0; i < 30; ++i) {
    const Case bad = case_with(kinds[i % 5]);
    try {
      auto opened = executor.open(bad);
      opened.session->bind(inputs_of(bad));
      opened.session->run(device::RunMode::eager);
    } catch (const WorkerLost& loss) {
      ++lost;
      if (kinds[i % 5] == seeds::kNoMemory)
        EXPECT_NE(std::string(loss.what()).find("ran out of memory"), std::string::npos) << loss.what();
    }
    auto opened = executor.open(good);
    opened.session->bind(inputs_of(good));
    EXPECT_EQ(opened.session->run(device::RunMode::eager).counts.wgmma.at(16), 42) << i;
  }
  EXPECT_EQ(lost, 30);
}

// A crash is the case's verdict, with its replay line; the next choice of the same problem still runs.
TEST(IsolatedExecutor, ACrashIsAVerdict) {
  auto executor = isolated(1);
  Hardware hardware;
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  std::vector<std::string> announced;
  plan.before_launch = [&](const std::string& line) { announced.push_back(line); };
  for (const auto& [seed, word] :
       {std::pair{seeds::kCrash, Correctness::crashed}, {seeds::kHang, Correctness::timed_out}}) {
    const Case c = case_with(seed);
    const auto records = run_problem(c.problem, {c.choice, c.choice}, plan);
    ASSERT_EQ(records.size(), 2u);
    for (const CaseRecord& r : records) {
      EXPECT_EQ(r.verdict->correctness, word);
      EXPECT_NE(r.verdict->replay.find(to_line(c)), std::string::npos);
    }
  }
  EXPECT_EQ(announced.size(), 4u);
}

}  // namespace
}  // namespace moe::harness
