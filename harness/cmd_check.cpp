#include <algorithm>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/case_file.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/run_cases.hpp"
#include "harness/self_test.hpp"

namespace moe::harness {

namespace {

int self_test(const Options& o, const Streams& s) {
  const Hardware hardware = load_hardware(o.hardware);
  const TimeBudget budget(o.run.time_budget_s);
  SelfTestPlan plan;
  plan.threads = host_threads();
  plan.first_seed = o.problem.seed;
  plan.shard = o.run.shard;
  plan.hardware = &hardware;
  plan.out_of_time = [&] { return budget.over(); };
  Report report;
  report.command = o.command;
  if (!o.output.quiet)
    plan.tell = [&s](const KillRow& row) {
      Report one;
      one.self_test = {row};
      s.err << self_test_text(one) << std::flush;
    };
  const FaultSource source = faults_of_program(o.run.self_test, o.run.case_time_s);
  report.self_test = run_self_test(source, plan);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << self_test_text(report);
  write_reports(report, o.output, s.out);
  if (budget.over()) return int(ExitCode::time_budget);
  const bool kept = std::all_of(report.self_test.begin(), report.self_test.end(), [&](const KillRow& row) {
    return std::all_of(source.faults.begin(), source.faults.end(),
                       [&](const PlantedFault& f) { return f.id != row.fault || keeps_promise(row, f); });
  });
  return int(kept ? ExitCode::passed : ExitCode::failed);
}

}  // namespace

int cmd_check(const Options& given, const Streams& s) {
  if (!given.run.self_test.empty()) return self_test(given, s);
  Options o = given;
  const bool many = o.run.trials > 0 || !o.run.suite.empty();
  if (!o.run.suite.empty()) load_cases(o.run.suite);  // a wrong line is said before a process is started
  if (!many) require_problem(o.problem);
  Suite suite = open_suite(o, s);
  const std::vector<Work> works = settle_works(o, suite);
  if (!many || suite.plan.executor == nullptr)
    run_works(suite, works);
  else if (o.run.trials > 0)
    run_trials(suite);
  else
    run_case_file(suite);
  return close_suite(suite);
}

}  // namespace moe::harness
