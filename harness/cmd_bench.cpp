#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/suite.hpp"

namespace moe::harness {
namespace {

/// An executor that gave no times has measured nothing: its cases count as skipped.
void skip_untimed(Report& report, const std::string& executor) {
  for (CaseRecord& r : report.cases) {
    const bool untimed =
        r.verdict->correctness == Correctness::passed && (!r.measurement || r.measurement->seconds.empty());
    if (!untimed) continue;
    r.measurement.reset();
    r.verdict->correctness = Correctness::skipped;
    r.verdict->reason =
        "executor " + executor + " gave no times; cuda does, and a process whose kernel runs on a card";
  }
}

}  // namespace

int cmd_bench(const Options& given, const Streams& s) {
  Options o = given;
  if (!o.run.executor_given) o.run.executor = "cuda";
  for (const char* untimed : {"emulated", "reference"})
    if (o.run.executor == untimed)
      throw BadInput(fmt::format("--executor {} cannot time; bench needs cuda or process:CMD", untimed));
  require_problem(o.problem);  // before a process is started
  Suite suite = open_suite(o, s);
  const auto works = settle_works(o, suite);
  suite.plan.timing = device::TimingPlan{};
  suite.plan.timing->samples = o.run.samples;
  suite.plan.judge_budget =
      std::min(o.run.judge_budget, 1e8);  // a sample: the numbers must come from a right kernel
  run_works(suite, works);
  skip_untimed(suite.report, o.run.executor);
  return close_suite(suite);
}

}  // namespace moe::harness
