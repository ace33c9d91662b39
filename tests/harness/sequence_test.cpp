// Sequences of launches: other shapes, other inputs and graph replays on one long-lived executor must not
// change what a case gives. RapidCheck's state machine draws and shrinks the sequences.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/state.h>

#include <cstring>
#include <map>
#include <memory>

#include "fixtures/problem/auto_tile.hpp"
#include "harness/executors.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

Case shape_of(int tokens, int seed) {
  Case c = parse_case(
      "op=moe_layer tokens=1 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=8x128x128");
  c.problem.shape.tokens = tokens;
  c.problem.seed = std::uint64_t(seed);
  return c;
}

/// The last case that was run: a session of it is open.
struct Model {
  int tokens = -1;
};

/// One executor and the session that is open; right outputs are computed once a case.
struct Machine {
  explicit Machine(std::unique_ptr<device::Executor> e) : executor(std::move(e)) {}
  std::unique_ptr<device::Executor> executor;
  std::unique_ptr<device::Session> session;
};

const Tensor& due_out(int tokens, int seed) {
  static std::map<std::pair<int, int>, TensorSet> known;
  TensorSet& set = known[{tokens, seed}];
  if (set.all().empty()) {
    const Case c = shape_of(tokens, seed);
    set = right_outputs(c, make_inputs(c.problem, c.choice, routing_of(c.problem), 1));
  }
  return set.at("out");
}

bool is_right(Machine& machine, int tokens, int seed, device::RunMode mode) {
  const Case c = shape_of(tokens, seed);
  machine.session->bind(make_inputs(c.problem, c.choice, routing_of(c.problem), 1));
  const device::RunResult result = machine.session->run(mode);
  if (!result.reports.empty()) return false;
  const Tensor &got = result.outputs.at("out"), &due = due_out(tokens, seed);
  return got.bytes() == due.bytes() && std::memcmp(got.data(), due.data(), got.bytes()) == 0;
}

using Command = rc::state::Command<Model, Machine>;

/// A session for another number of tokens.
struct Open : Command {
  int tokens = *rc::gen::element(1, 2, 7, 8, 9, 17);
  void apply(Model& m) const override { m.tokens = tokens; }
  void run(const Model&, Machine& machine) const override {
    machine.session.reset();
    machine.session = machine.executor->open(shape_of(tokens, 1)).session;
    RC_ASSERT(machine.session != nullptr);
    RC_ASSERT(is_right(machine, tokens, 1, device::RunMode::eager));
  }
  void show(std::ostream& out) const override { out << "open " << tokens; }
};

/// Other inputs in the session that is open.
struct Run : Command {
  int seed = *rc::gen::inRange(1, 4);
  bool graph = *rc::gen::arbitrary<bool>();
  void checkPreconditions(const Model& m) const override { RC_PRE(m.tokens >= 0); }
  void run(const Model& m, Machine& machine) const override {
    RC_ASSERT(is_right(machine, m.tokens, seed, graph ? device::RunMode::graph : device::RunMode::eager));
  }
  void show(std::ostream& out) const override { out << "run seed " << seed << (graph ? " as a graph" : ""); }
};

/// Says nothing: a failure that is wanted is no news.
struct Quiet : rc::detail::TestListener {
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

using MakeExecutor = std::function<std::unique_ptr<device::Executor>()>;

rc::detail::TestResult run_sequences(const MakeExecutor& make, int sequences) {
  rc::detail::TestParams params;
  params.seed = 5;
  params.maxSuccess = sequences;
  params.maxSize = 20;
  Quiet listener;
  const auto property = rc::detail::toProperty([&] {
    Machine machine(make());
    rc::state::check(Model{}, machine, rc::state::gen::execOneOfWithArgs<Open, Run>());
  });
  return rc::detail::checkProperty(property, {}, params, listener);
}

#if MOE_HAVE_EMULATOR
// Catches: a workspace sized for an earlier shape, a counter that is not reset, a plan kept from other
// inputs.
TEST(Sequences, NeverChangeWhatTheBuiltInKernelsGive) {
  const auto result = run_sequences(
      [] {
        return std::move(choose_executor({"emulated", 1, 4, 3}).executor);
      },
      15);
  EXPECT_TRUE(result.is<rc::detail::SuccessResult>()) << result;
}
#endif

/// Gives a wrong row where an earlier run had more tokens: a buffer that keeps its largest size.
std::unique_ptr<device::Executor> keeps_its_size() {
  auto most = std::make_shared<std::int64_t>(0);
  return std::make_unique<PlantedExecutor>([most](const Case& c, const TensorSet& in, device::RunMode, int) {
    TensorSet out = right_outputs(c, in);
    if (*most > c.problem.shape.tokens) out.at("out").data()[0] ^= std::byte{1};
    *most = std::max(*most, c.problem.shape.tokens);
    return out;
  });
}

// The machine above finds such a kernel, or it would prove nothing.
TEST(Sequences, FindABufferThatKeepsItsSize) {
  EXPECT_TRUE(run_sequences(keeps_its_size, 60).is<rc::detail::FailureResult>())
      << "no sequence of 60 found it";
}

}  // namespace
}  // namespace moe::harness
