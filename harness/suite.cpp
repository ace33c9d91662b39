#include "harness/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/adopt_kernel.hpp"
#include "harness/exit_code.hpp"
#include "harness/host_memory.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/try_properties.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

/// Runs of other people's kernels: two, so that one whose answer changes is found out.
constexpr int kForeignRuns = 2;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void skip(const Work& work, const std::string& why, Report& report) {
  for (const Choice& choice : work.choices) {
    CaseRecord record;
    record.trial = {work.problem, choice};
    record.verdict = Verdict{};
    record.verdict->reason = why;
    report.cases.push_back(record);
  }
}

std::string patience_option(const RunOptions& run) {
  if (run.case_time_s == RunOptions{}.case_time_s) return "";
  return fmt::format("{}--case-timeout {:g}s ", run.isolate ? "--isolate " : "", run.case_time_s);
}

/// Options that decide a verdict and are not in the case's line, where they are not the defaults.
std::string replay_options(const RunOptions& run) {
  std::string text;
  if (run.judge_budget != RunOptions{}.judge_budget)
    text += fmt::format("--judge-budget {:g} ", run.judge_budget);
  return text + patience_option(run);
}

/// A name that no kernel of the executor has is a typo, not a case that could not run here.
void require_kernel(const Options& o, const device::Executor* executor) {
  if (executor == nullptr || executor->name().starts_with(kProcessPrefix))
    return;  // a child refuses by itself
  const std::string& wanted = o.problem.replay ? o.problem.replay->choice.kernel : o.problem.choice.kernel;
  const std::vector<KernelInfo> kernels = executor->kernels();
  std::vector<std::string_view> names;
  for (const KernelInfo& kernel : kernels) names.push_back(kernel.name);
  if (names.empty() || std::find(names.begin(), names.end(), wanted) != names.end()) return;
  throw BadInput(
      fmt::format("executor {} has no kernel '{}'; it has {}", o.run.executor, wanted, join(names)));
}

/// A tile that was asked for by name and that no kernel has leaves nothing to run: the request is at fault.
bool tile_was_refused(const Suite& suite) {
  const Choice& asked = suite.options.problem.choice;
  const auto refused = [](const CaseRecord& r) { return r.verdict->correctness == Correctness::refused; };
  const std::vector<CaseRecord>& cases = suite.report.cases;
  return !(asked.tile.automatic() && asked.tile_down.automatic()) && !cases.empty() &&
         std::all_of(cases.begin(), cases.end(), refused);
}

}  // namespace

TimeBudget::TimeBudget(std::optional<double> seconds) : seconds_(seconds), start_(now()) {}

bool TimeBudget::over() const { return seconds_ && now() - start_ > *seconds_; }

Suite open_suite(const Options& o, const Streams& s) {
  require_writable(o.output);
  const int threads = host_threads();
  const Hardware hardware = load_hardware(o.hardware);
  const ExecutorPlan executor{o.run.executor,       threads,         hardware.sms,
                              o.run.first_schedule, o.run.semantics, o.run.card};
  Suite suite{o,
              s,
              choose_executor(executor, o.run.isolate, o.run.case_time_s),
              hardware,
              {},
              {},
              TimeBudget(o.run.time_budget_s),
              {}};
  suite.plan.executor = suite.chosen.executor.get();
  require_kernel(o, suite.plan.executor);
  suite.progress = std::make_shared<Progress>(s.err, Progress::style_of(o.output.quiet, s.err_is_terminal));
  suite.plan.program = s.program;
  suite.plan.options = replay_options(o.run);
  suite.plan.patience = patience_option(o.run);
  suite.plan.now = now;
  suite.plan.threads = threads;
  if (suite.plan.executor != nullptr)
    suite.finder = std::make_unique<SemanticsFinder>(*suite.plan.executor, threads);
  suite.plan.finder = suite.finder.get();
  suite.plan.infer = o.run.infer;
  suite.plan.judge_budget = o.run.judge_budget;
  const bool process = o.run.executor.starts_with(kProcessPrefix);
  suite.plan.repeats = process ? kForeignRuns : o.run.schedules;
  suite.plan.first_schedule = o.run.first_schedule;
  if (!o.run.properties.empty()) suite.plan.properties = find_properties(o.run.properties);
  suite.plan.graph = suite.chosen.graph;
  suite.plan.crowded = suite.chosen.crowded;
  suite.plan.isolated = process || o.run.isolate || o.run.executor == "cuda";
  suite.plan.room = {available_host_memory(), suite.chosen.card_bytes};
  suite.plan.before_launch = [progress = suite.progress](const std::string& line) { progress->start(line); };
  suite.report.properties = no_counts(suite.plan.properties);
  suite.report.command = o.command;
  suite.report.executor = o.run.executor;
  describe_hardware(suite.report, suite.hardware);
  suite.report.device = suite.chosen.device;
  return suite;
}

void run_works(Suite& suite, const std::vector<Work>& works) {
  suite.plan.hardware = &suite.hardware;  // the suite has its final place by now
  for (const Work& work : works) suite.progress->plan(work.choices.size());
  for (const Work& work : works) {
    if (suite.budget.over()) {
      suite.out_of_time = true;
      return;
    }
    if (suite.plan.executor == nullptr) {
      skip(work, suite.chosen.why_not, suite.report);
      continue;
    }
    auto records = run_problem(work.problem, work.choices, suite.plan);
    for (CaseRecord& r : records) {
      suite.progress->finish(is_bad(r));
      list_case(suite.report, std::move(r));
    }
  }
}

std::vector<Work> settle_works(Options& o, Suite& suite) {
  const bool many = o.run.trials > 0 || !o.run.suite.empty();
  const char* option = o.command == "upstream-check" ? "--before-kernel or --after-kernel" : "--kernel";
  if (o.run.executor.starts_with(kProcessPrefix))
    suite.report.chosen = adopt_kernel(o.problem, suite.chosen.kernels, option, many);
  return many ? std::vector<Work>{} : expand(o.problem, o.run.shard);
}

bool is_bad(const CaseRecord& r) {
  const Correctness c = r.verdict->correctness;
  return c == Correctness::failed || c == Correctness::crashed || c == Correctness::timed_out;
}

bool hits_fail_on(const Report& report, const std::vector<std::string>& words) {
  const auto listed = [&](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  return std::any_of(report.cases.begin(), report.cases.end(), [&](const CaseRecord& r) {
    return r.verdict && (listed(name(r.verdict->correctness)) || listed(name(r.verdict->speed)) ||
                         listed(name(r.verdict->model)));
  });
}

namespace {

/// Why a run of no verdict gave none, in one line.
std::string why_nothing_ran(const Suite& suite) {
  if (suite.plan.executor == nullptr) return suite.chosen.why_not;
  const std::vector<CaseRecord>& cases = suite.report.cases;
  if (cases.empty()) return "no case is in this --shard";
  return fmt::format("none of {} cases could run; the first: {}: {}", cases.size(),
                     name(cases.front().verdict->correctness), cases.front().verdict->reason);
}

}  // namespace

int close_suite(Suite& suite) {
  suite.progress->end();
  const Options& o = suite.options;
  Report& report = suite.report;
  report.errors = summarise_errors(report.cases);
  if (!o.output.quiet && !reports_to_stdout(o.output))
    suite.streams.out << table_report(report, suite.streams.out_is_terminal);
  else
    suite.streams.err << failures_text(report, Refusals::counted);  // --quiet or a report on stdout
  write_reports(report, o.output, suite.streams.out);
  if (suite.out_of_time) suite.streams.err << "moeproof: the time budget ended before all cases ran\n";
  std::vector<Correctness> words;
  for (const CaseRecord& r : report.cases) words.push_back(r.verdict->correctness);
  if (report.unlisted.passed > 0) words.push_back(Correctness::passed);
  const ExitCode code = exit_code(words, o.run.allow_mistrusted, o.run.require_gpu, suite.out_of_time);
  if (code == ExitCode::nothing_ran || code == ExitCode::infrastructure)
    suite.streams.err << "moeproof: nothing ran: " << one_line(why_nothing_ran(suite)) << "\n";
  if (code == ExitCode::nothing_ran && tile_was_refused(suite)) return int(ExitCode::usage);
  return int(hits_fail_on(report, o.run.fail_on) ? ExitCode::failed : code);
}

}  // namespace moe::harness
