// What does a run leave behind? One CaseRecord per case and a Report that reporters print and `compare` reads
// back. Fields a command does not fill stay empty and are absent from every report. Times in seconds.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/counts.hpp"
#include "fixtures/problem/measurement.hpp"
#include "fixtures/problem/prediction.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

/// Time of the named baseline layout divided by the time of this case: above 1 = this case is faster.
struct Speedup {
  std::string baseline;  // "normal_mma"
  std::optional<double> predicted, measured;
};

/// What became of one property (harness/properties) on one case.
enum class PropertyState { held, failed, skipped };
std::string_view name(PropertyState);
struct PropertyOutcome {
  std::string id;
  PropertyState state = PropertyState::skipped;
  std::string reason;  // of a failure or a skip
};

/// The same over all cases; `reason`: the first failure's, or the most frequent of the skips.
struct PropertyCount {
  std::string id, statement;
  int held = 0, failed = 0, skipped = 0;
  std::string reason;
  bool never_applied() const { return held + failed == 0; }
};

struct CaseRecord {
  Case trial;
  std::optional<Prediction> prediction;
  std::optional<Measurement> measurement;
  std::optional<Verdict> verdict;
  std::optional<Counts> counts;  // as the executor counted them
  std::optional<Speedup> speedup;
  std::vector<PropertyOutcome> properties;  // that were asked for
  double elapsed_s = 0;                     // wall time of the case: open, run and judge
};

struct DeviceFacts {
  std::string name, driver;
  int sms = 0;
};

/// Relative error of predicted against measured time, |predicted - measured| / measured, over `n` cases.
struct ErrorSummary {
  int n = 0;
  double mean = 0, median = 0, p90 = 0;
};

struct Report {
  std::string command, executor, hardware;  // "check", "emulated", "NVIDIA H200"
  bool hardware_measured = false;           // its constants were; predictions for it were compared with times
  std::string chosen = {};                  // what a kernel's own words filled in for the command line
  std::optional<DeviceFacts> device;
  std::vector<CaseRecord> cases;
  std::vector<PropertyCount> properties;  // that were asked for, in the table's order
  ErrorSummary errors;
};

/// Output elements that were compared, over all cases and stages.
struct JudgedElements {
  std::int64_t checked = 0, to_the_bit = 0, wrong = 0;
};

int count_of(const Report&, Correctness);
JudgedElements judged_elements(const Report&);
ErrorSummary summarise_errors(const std::vector<CaseRecord>&);
/// Fills speedup of each swap_ab record of one problem from its baseline among the others.
void fill_speedups(std::vector<CaseRecord>& records_of_one_problem);

/// Version of the program, "0.1.0".
std::string_view tool_version();

}  // namespace moe::harness
