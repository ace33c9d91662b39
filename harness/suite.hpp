// How do check and bench go through their work? Problem after problem until the time budget ends; then the
// table, the reports and the exit code.
#pragma once
#include <memory>
#include <vector>

#include "harness/cli.hpp"
#include "harness/executors.hpp"
#include "harness/expand.hpp"
#include "harness/infer/finder.hpp"
#include "harness/progress.hpp"
#include "harness/run_problem.hpp"

namespace moe::harness {

/// Seconds since the run began, and whether its budget is over.
class TimeBudget {
 public:
  explicit TimeBudget(std::optional<double> seconds);
  bool over() const;

 private:
  std::optional<double> seconds_;
  double start_;
};

/// Everything a run needs, built from the options.
struct Suite {
  const Options& options;
  const Streams& streams;
  ExecutorChoice chosen;
  Hardware hardware;
  std::unique_ptr<SemanticsFinder> finder;
  RunPlan plan;
  TimeBudget budget;
  Report report;
  bool out_of_time = false;
  std::shared_ptr<Progress> progress = {};
};
/// Opens the executor; where it cannot run the plan has none.
Suite open_suite(const Options& options, const Streams& streams);

/// The works of the options, after what they leave open was filled in from a process's only kernel. `o` is
/// what the suite was opened with. Empty for random cases.
std::vector<Work> settle_works(Options& o, Suite& suite);

/// Runs the works in order, appending to the report.
void run_works(Suite& suite, const std::vector<Work>& works);
/// Table, reports, exit status.
int close_suite(Suite& suite);

/// Failed, crashed or timed out.
bool is_bad(const CaseRecord& record);
/// True where a verdict word of a record is among `words`.
bool hits_fail_on(const Report& report, const std::vector<std::string>& words);

}  // namespace moe::harness
