#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "harness/cli.hpp"
#include "harness/executors.hpp"
#include "harness/exit_code.hpp"
#include "harness/kill_file.hpp"
#include "harness/progress.hpp"
#include "harness/reporters.hpp"
#include "harness/self_test.hpp"
#include "harness/suite.hpp"

namespace moe::harness {
namespace {

bool all_kept(const std::vector<KillRow>& rows, const FaultSource& source) {
  return std::all_of(rows.begin(), rows.end(), [&](const KillRow& row) {
    return std::all_of(source.faults.begin(), source.faults.end(),
                       [&](const PlantedFault& f) { return f.id != row.fault || keeps_promise(row, f); });
  });
}

/// Of both rows of each fault, without those of an earlier run.
std::size_t seeds_to_try(const FaultSource& source, const SelfTestPlan& plan) {
  std::size_t rows = 0;
  for (const PlantedFault& fault : source.faults) {
    if (!fault.why_not.empty()) continue;
    const auto done = std::count_if(plan.done.begin(), plan.done.end(),
                                    [&](const KillRow& row) { return row.fault == fault.id; });
    rows += 2 - std::min<std::size_t>(2, std::size_t(done));
  }
  return rows * std::size_t(plan.seeds);
}

}  // namespace

int cmd_self_test(const Options& o, const Streams& s) {
  const Hardware hardware = load_hardware(o.hardware);
  const TimeBudget budget(o.run.time_budget_s);
  SelfTestPlan plan;
  plan.seeds = o.run.self_test_seeds;
  if (o.run.trials > 0) plan.trials = o.run.trials;
  if (o.run.trial_size > 0) plan.trial_size = o.run.trial_size;
  plan.threads = host_threads();
  plan.first_seed = o.problem.seed;
  plan.hardware = &hardware;
  plan.out_of_time = [&] { return budget.over(); };
  FaultSource source = faults_of_program(o.run.self_test, o.run.case_time_s);
  choose_faults(source, o.run.faults, o.run.shard);
  const std::string& file = o.run.journal;
  if (!file.empty())
    plan.done = open_kill_file(file, fmt::format("seeds={} trials={} size={} seed={}", plan.seeds,
                                                 plan.trials, plan.trial_size, plan.first_seed));
  Progress progress(s.err, Progress::style_of(o.output.quiet, s.err_is_terminal));
  progress.plan(seeds_to_try(source, plan));
  plan.tried = [&](bool found) { progress.finish(!found); };
  plan.tell = [&](const KillRow& row) {
    if (!file.empty()) append_row(file, row);
    if (!o.output.quiet) progress.say(kill_line(row));
  };
  Report report;
  report.command = o.command;
  report.self_test = run_self_test(source, plan);
  progress.end();
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << self_test_text(report.self_test);
  write_reports(report, o.output, s.out);
  if (budget.over()) return int(ExitCode::time_budget);
  return int(all_kept(report.self_test, source) ? ExitCode::passed : ExitCode::failed);
}

}  // namespace moe::harness
