#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "harness/cli.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/property.hpp"
#include "harness/propose.hpp"
#include "harness/shrink.hpp"
#include "harness/suite.hpp"

namespace moe::harness {
namespace {

bool is_bad(const CaseRecord& r) {
  const Correctness c = r.verdict->correctness;
  return c == Correctness::failed || c == Correctness::crashed || c == Correctness::timed_out;
}

bool has_failed(const CaseRecord& record, const Property& p) {
  return std::any_of(record.properties.begin(), record.properties.end(), [&](const PropertyOutcome& o) {
    return o.id == p.id && o.state == PropertyState::failed;
  });
}

CaseRecord run_one(Suite& suite, const Case& c) {
  suite.plan.hardware = &suite.hardware;
  return run_problem(c.problem, {c.choice}, suite.plan).front();
}

/// Reports the smallest case that fails the same way, or says that the failure does not repeat.
void shrink_failure(Suite& suite, CaseRecord& record) {
  CaseRecord smallest = record;
  const std::string kind = failure_kind(*record.verdict);
  const auto asked = suite.plan.properties;
  std::erase_if(suite.plan.properties, [&](const Property* p) { return !has_failed(record, *p); });
  const auto fails = [&](const Case& c) {
    CaseRecord r = run_one(suite, c);
    const bool same = is_bad(r) && failure_kind(*r.verdict) == kind;
    if (same) smallest = r;
    return same;
  };
  ShrinkBudget budget;
  budget.out_of_time = [&] { return suite.budget.over(); };
  const Shrunk shrunk = shrink_case(record.trial, fails, budget);
  suite.plan.properties = asked;
  if (shrunk.flaky) {
    record.verdict->reason += "; a second run did not fail so: flaky";
    return;
  }
  if (shrunk.steps == 0) return;
  smallest.properties = record.properties;  // all that were tried, on the case that was drawn
  record = smallest;
}

/// A broken kernel fails every other trial: so many failures are shrunk and named, the rest is counted.
constexpr int kNamedFailures = 5;

void note_failure(Suite& suite, CaseRecord& record, int failures) {
  if (failures > kNamedFailures) return;
  shrink_failure(suite, record);
  suite.streams.err << "failed: " << record.verdict->replay << std::endl;
  if (failures == kNamedFailures) suite.streams.err << "further failures are counted, not shrunk\n";
}

/// The kernel of the options, or the only one.
const KernelInfo* kernel_of(const Suite& suite, const std::vector<KernelInfo>& kernels) {
  for (const KernelInfo& kernel : kernels)
    if (kernel.name == suite.options.problem.choice.kernel) return &kernel;
  return kernels.size() == 1 ? &kernels.front() : nullptr;
}

/// What the command line fixes, and what a foreign kernel says it takes.
ProposalFrame frame_of(const Suite& suite) {
  const ProblemOptions& o = suite.options.problem;
  ProposalFrame frame{o.op_given,
                      o.op,
                      o.contract,
                      o.gemm,
                      o.quant.has_value(),
                      o.quant.value_or(QuantScheme{}),
                      o.choice.kernel,
                      {},
                      {},
                      suite.plan.executor->name().starts_with(kProcessPrefix)};
  const std::vector<KernelInfo> kernels = suite.plan.executor->kernels();
  const KernelInfo* kernel = frame.plain ? kernel_of(suite, kernels) : nullptr;
  if (kernel == nullptr) return frame;
  frame.quants = kernel->quants;
  frame.contracts = kernel->contracts;
  const auto takes = [&](Op op) {
    return std::find(kernel->ops.begin(), kernel->ops.end(), op) != kernel->ops.end();
  };
  if (!frame.op_given && !(takes(Op::moe_layer) && takes(Op::grouped_gemm)) && !kernel->ops.empty())
    frame.op_given = true, frame.op = kernel->ops.front();
  if (!o.op_given && !kernel->contracts.empty()) frame.contract = kernel->contracts.front();
  return frame;
}

void run_trials(Suite& suite) {
  int failures = 0;
  const ProblemOptions& o = suite.options.problem;
  const ProposalFrame frame = frame_of(suite);
  suite.progress->planned = std::size_t(suite.options.run.trials);
  for (int trial = 0; trial < suite.options.run.trials; ++trial) {
    if (!suite.options.run.shard.owns(std::size_t(trial))) continue;
    if (suite.budget.over()) {
      suite.out_of_time = true;
      return;
    }
    CaseRecord record = run_one(suite, propose_case(frame, o.seed, trial));
    if (is_bad(record)) note_failure(suite, record, ++failures);
    suite.report.cases.push_back(std::move(record));
  }
}

}  // namespace

int cmd_check(const Options& given, const Streams& s) {
  Options o = given;
  if (o.run.trials == 0) require_problem(o.problem);  // before a process is started
  Suite suite = open_suite(o, s);
  const std::vector<Work> works = settle_works(o, suite);
  if (o.run.trials > 0 && suite.plan.executor != nullptr)
    run_trials(suite);
  else
    run_works(suite, works);
  return close_suite(suite);
}

}  // namespace moe::harness
