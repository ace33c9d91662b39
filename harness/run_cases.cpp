#include "harness/run_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>

#include "harness/case_file.hpp"
#include "harness/journal.hpp"
#include "harness/lanes.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/property.hpp"
#include "harness/propose.hpp"
#include "harness/shrink.hpp"

namespace moe::harness {
namespace {

/// A broken kernel fails every other trial: so many failures are shrunk and named, the rest is counted.
constexpr int kNamedFailures = 5;
/// What one failure may take to shrink.
constexpr double kShrinkSeconds = 120;
/// Passed cases of longer runs are counted, not listed.
constexpr std::size_t kListed = 400;
/// Cases whose lines are on disk before the first of them is launched.
constexpr std::size_t kAnnounced = 32;
/// A case in which the program itself ended so often is given up.
constexpr int kMostLosses = 2;

bool has_failed(const CaseRecord& record, const Property& p) {
  return std::any_of(record.properties.begin(), record.properties.end(), [&](const PropertyOutcome& o) {
    return o.id == p.id && o.state == PropertyState::failed;
  });
}

CaseRecord run_one(const RunPlan& plan, const Case& c) {
  const double begin = plan.now();
  CaseRecord record = run_problem(c.problem, {c.choice}, plan).front();
  record.elapsed_s = plan.now() - begin;  // inputs and routing too
  return record;
}

/// Reports the smallest case that fails the same way, or says that the failure does not repeat.
void shrink_failure(Suite& suite, CaseRecord& record) {
  CaseRecord smallest = record;
  const std::string kind = failure_kind(*record.verdict);
  const auto asked = suite.plan.properties;
  std::erase_if(suite.plan.properties, [&](const Property* p) { return !has_failed(record, *p); });
  const auto fails = [&](const Case& c) {
    CaseRecord r = run_one(suite.plan, c);
    const bool same = is_bad(r) && failure_kind(*r.verdict) == kind;
    if (same) smallest = r;
    return same;
  };
  ShrinkBudget budget;
  const double begin = suite.plan.now();
  budget.out_of_time = [&] { return suite.budget.over() || suite.plan.now() - begin > kShrinkSeconds; };
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
                      ProposalFrame{}.largest,
                      suite.plan.executor->name().starts_with(kProcessPrefix)};
  if (suite.options.run.trial_size > 0) frame.largest = suite.options.run.trial_size;
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

/// What decides the cases and their verdicts, for the journal; the number of trials may grow.
std::string options_text(const Suite& suite) {
  const RunOptions& run = suite.options.run;
  const ProblemOptions& o = suite.options.problem;
  std::string text = fmt::format("executor={} seed={} kernel={}", run.executor, o.seed, o.choice.kernel);
  if (o.op_given) text += fmt::format(" op={} contract={} gemm={}", name(o.op), name(o.contract), o.gemm);
  if (o.quant) text += fmt::format(" quant={}", name(o.quant->kind));
  if (!run.suite.empty()) text += " suite=" + run.suite;
  if (!run.properties.empty()) text += " properties=" + run.properties;
  if (!run.semantics.empty()) text += " semantics=" + run.semantics;
  if (run.trial_size > 0) text += fmt::format(" trial_size={}", run.trial_size);
  if (run.shard.count > 1) text += fmt::format(" shard={}/{}", run.shard.index, run.shard.count);
  return text + (suite.plan.options.empty() ? "" : " " + suite.plan.options);
}

/// Cases by number, made when they are needed.
struct Cases {
  std::size_t count = 0;
  std::function<Case(std::size_t)> at;
  bool shrink = true;
};

/// Calls what it was given at the end of its block, however that is left.
class Finally {
 public:
  explicit Finally(std::function<void()> what) : what_(std::move(what)) {}
  ~Finally() { what_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  std::function<void()> what_;
};

class Runner {
 public:
  Runner(Suite& suite, Cases cases) : suite_(suite), cases_(std::move(cases)) {
    suite.plan.hardware = &suite.hardware;  // the suite has its final place by now
    if (!suite.options.run.journal.empty()) journal_.emplace(suite.options.run.journal, options_text(suite));
    for (std::size_t number = 0; number < cases_.count; ++number)
      if (suite.options.run.shard.owns(number)) suite.progress->plan(1);
  }
  void run();

 private:
  Case case_at(std::size_t number);
  void run_in_order();
  void run_side_by_side(const std::vector<int>& lanes);
  std::optional<std::size_t> next_for_a_lane();
  void run_in_lane(const RunPlan& plan, std::size_t number);
  void settle_lanes(const bool& ended);
  void announce_from(std::size_t number);
  bool is_known(std::size_t number, const Case& c);
  bool list_known(std::size_t number, const Case& c);
  bool runs_alone(std::size_t number) const;
  bool ended_the_program(std::size_t number) const;
  CaseRecord run_case(const RunPlan& plan, std::size_t number);
  void settle(std::size_t number, CaseRecord record);
  void list(CaseRecord record);

  Suite& suite_;
  Cases cases_;
  std::optional<Journal> journal_;
  std::size_t announced_ = 0;  // cases in front of it are on disk
  int failures_ = 0;

  std::mutex draw_;   // RapidCheck draws for one thread at a time
  std::mutex mutex_;  // of the journal and of what follows, where lanes run
  std::condition_variable change_;
  bool in_lanes_ = false;                    // which write their records themselves
  bool stopped_ = false;                     // no lane begins another case
  std::size_t next_ = 0;                     // of the lanes
  std::map<std::size_t, CaseRecord> early_;  // run in a lane, not settled yet
};

Case Runner::case_at(std::size_t number) {
  const std::lock_guard lock(draw_);
  return cases_.at(number);
}

void Runner::announce_from(std::size_t number) {
  if (!journal_ || number < announced_) return;
  std::vector<Case> next;
  for (announced_ = number; announced_ < cases_.count && next.size() < kAnnounced; ++announced_)
    next.push_back(case_at(announced_));
  journal_->announce(number, next);
}

/// An earlier run has done it.
bool Runner::is_known(std::size_t number, const Case& c) {
  return journal_ && journal_->done(number, c) != nullptr;
}

/// A case during which the program itself ended is not run beside others: whose fault it was would stay open.
bool Runner::runs_alone(std::size_t number) const { return journal_ && journal_->lost(number) > 0; }

/// So often that it is given up.
bool Runner::ended_the_program(std::size_t number) const {
  return journal_ && journal_->lost(number) >= kMostLosses;
}

CaseRecord Runner::run_case(const RunPlan& plan, std::size_t number) {
  const Case c = case_at(number);
  if (!ended_the_program(number)) return run_one(plan, c);
  CaseRecord record;
  record.trial = c;
  record.verdict = Verdict{};
  record.verdict->correctness = Correctness::crashed;
  record.verdict->reason = "the program itself ended twice while it ran this case";
  record.verdict->replay = replay_line(c, suite_.plan);
  return record;
}

/// In the order of the cases, so that which failures are shrunk does not follow time.
void Runner::settle(std::size_t number, CaseRecord record) {
  const bool told = is_bad(record) && ++failures_ <= kNamedFailures;
  if (told) {
    if (cases_.shrink && !ended_the_program(number)) shrink_failure(suite_, record);
    suite_.progress->say("failed: " + record.verdict->replay + "\n");
    if (failures_ == kNamedFailures) suite_.progress->say("further failures are counted, not shrunk\n");
  }
  if (journal_ && (told || !in_lanes_)) {
    const std::lock_guard lock(mutex_);
    journal_->finish(number, record);
  }
  list(std::move(record));
}

void Runner::list(CaseRecord record) {
  Report& report = suite_.report;
  if (cases_.count <= kListed || record.verdict->correctness != Correctness::passed)
    return list_case(report, std::move(record));
  count_properties(report, record);
  ++report.unlisted.passed;
  report.unlisted.judged.checked += record.verdict->checked;
  if (record.verdict->judged_by == "bits") report.unlisted.judged.to_the_bit += record.verdict->checked;
}

/// Lists a case that an earlier run has done; false where none has.
bool Runner::list_known(std::size_t number, const Case& c) {
  if (!is_known(number, c)) return false;
  suite_.progress->leave_out();
  list(*journal_->done(number, c));
  return true;
}

void Runner::run() {
  const std::vector<int> lanes = lanes_of(suite_.options.run);
  lanes.size() > 1 ? run_side_by_side(lanes) : run_in_order();
}

void Runner::run_in_order() {
  for (std::size_t number = 0; number < cases_.count; ++number) {
    if (!suite_.options.run.shard.owns(number)) continue;
    const Case c = case_at(number);
    if (list_known(number, c)) continue;
    if (suite_.budget.over()) {
      suite_.out_of_time = true;
      return;
    }
    announce_from(number);
    if (journal_) journal_->start(number);
    CaseRecord record = run_case(suite_.plan, number);
    suite_.progress->finish(is_bad(record));
    settle(number, std::move(record));
  }
}

std::optional<std::size_t> Runner::next_for_a_lane() {
  const std::lock_guard lock(mutex_);
  for (; next_ < cases_.count && !stopped_; ++next_) {
    if (!suite_.options.run.shard.owns(next_) || early_.contains(next_)) continue;
    if (is_known(next_, case_at(next_))) continue;
    if (suite_.budget.over()) return std::nullopt;
    announce_from(next_);
    if (journal_) journal_->start(next_);
    return next_++;
  }
  return std::nullopt;
}

/// What passed is on disk at once; what failed waits for its turn to be shrunk.
void Runner::run_in_lane(const RunPlan& plan, std::size_t number) {
  CaseRecord record = run_case(plan, number);
  suite_.progress->finish(is_bad(record));
  const std::lock_guard lock(mutex_);
  if (journal_) journal_->finish(number, record);
  early_.emplace(number, std::move(record));
  change_.notify_all();
}

/// Takes the records of all lanes in the order of the cases.
void Runner::settle_lanes(const bool& ended) {
  for (std::size_t number = 0; number < cases_.count; ++number) {
    if (!suite_.options.run.shard.owns(number)) continue;
    const Case c = case_at(number);
    if (list_known(number, c)) continue;
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return ended || early_.contains(number); });
    auto mine = early_.extract(number);
    lock.unlock();
    if (mine.empty())
      suite_.out_of_time = true;
    else
      settle(number, std::move(mine.mapped()));
  }
}

void Runner::run_side_by_side(const std::vector<int>& lanes) {
  in_lanes_ = true;
  for (std::size_t number = 0; number < cases_.count; ++number)
    if (suite_.options.run.shard.owns(number) && runs_alone(number) && !suite_.budget.over()) {
      journal_->start(number);
      run_in_lane(suite_.plan, number);
    }
  bool ended = false;  // under the lock
  const auto set = [&](bool& flag) {
    const std::lock_guard lock(mutex_);
    flag = true;
    change_.notify_all();
  };
  const LaneWork work{[&] { return next_for_a_lane(); },
                      [&](const RunPlan& plan, std::size_t number) { run_in_lane(plan, number); }};
  std::future<void> running = std::async(std::launch::async, [&] {
    const Finally say([&] { set(ended); });
    run_in_lanes(suite_, lanes, work);
  });
  const Finally stop([&] { set(stopped_); });  // in front of the future's own wait
  settle_lanes(ended);
  running.get();
}

/// Lines of the corpus that the command line and a foreign kernel's words leave.
std::vector<Case> fitting_corpus(const ProposalFrame& frame) {
  std::vector<Case> cases;
  for (FileCase& file_case : load_cases("corpus"))
    if (fits(frame, file_case.c)) {
      file_case.c.choice.kernel = frame.kernel;
      cases.push_back(std::move(file_case.c));
    }
  return cases;
}

}  // namespace

void run_trials(Suite& suite) {
  const ProposalFrame frame = frame_of(suite);
  const std::vector<Case> corpus = fitting_corpus(frame);
  const auto at = [&](std::size_t number) {
    return number < corpus.size()
               ? corpus[number]
               : propose_case(frame, suite.options.problem.seed, int(number - corpus.size()));
  };
  Runner(suite, {corpus.size() + std::size_t(suite.options.run.trials), at, true}).run();
}

void run_case_file(Suite& suite) {
  const std::vector<FileCase> cases = load_cases(suite.options.run.suite);
  Runner(suite, {cases.size(), [&](std::size_t number) { return cases[number].c; }, false}).run();
}

}  // namespace moe::harness
