// What does a run leave behind? One CaseRecord per case and a Report that reporters print and `compare` reads
// back. Fields a command does not fill stay empty and are absent from every report. Times in seconds.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/counts.hpp"
#include "fixtures/problem/measurement.hpp"
#include "fixtures/problem/prediction.hpp"
#include "fixtures/problem/verdict.hpp"
#include "harness/block_sums.hpp"

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
  std::string reason;                // see above
  std::map<std::string, int> skips;  // reason -> cases
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
  BlockSums sums = {};  // of a record that was read back: its verdict has wrong blocks only
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

/// Output elements that were compared, over all cases and stages.
struct JudgedElements {
  std::int64_t checked = 0, to_the_bit = 0, wrong = 0;
};

/// One planted fault in the self-test: what found it, how often, and how small it became.
struct KillRow {
  std::string fault, kind, text;       // "M06", "bounds", what it does
  bool declared = false;               // judged to the bit; else as an outsider's kernel
  int seeds = 0, killed = 0;           // seeds of random cases, and those that had one that failed
  int cases = 0;                       // median over seeds: cases run until the first that failed
  std::vector<std::string> killed_by;  // what finds it in the shrunk case: "truth" and properties
  std::string shrunk, trigger;         // Case lines: what the first found became, the smallest known
  double distance = 0;                 // how many times larger the first is (harness/self_test.hpp)
  int runs = 0;                        // cases run until nothing became smaller
  std::string why_not;                 // it was not tried
};

/// Cases that a long run counts and does not list: passed ones.
struct Unlisted {
  int passed = 0;
  JudgedElements judged;
};

struct Report {
  std::string command, executor, hardware;  // "check", "emulated", "NVIDIA H200"
  bool hardware_measured = false;           // its constants were; predictions for it were compared with times
  double hbm_bytes_per_s = 0;               // what its memory gives at most
  std::string chosen = {};                  // what a kernel's own words filled in for the command line
  std::optional<DeviceFacts> device;
  std::vector<CaseRecord> cases;
  std::vector<PropertyCount> properties;  // that were asked for, in the table's order
  ErrorSummary errors;
  Unlisted unlisted;
  std::vector<KillRow> self_test;
};

/// The sums of a record that was just judged or read back.
BlockSums sums_of(const CaseRecord&);
int count_of(const Report&, Correctness);
JudgedElements judged_elements(const Report&);
/// Appends a case and counts its properties.
void list_case(Report&, CaseRecord);
/// Adds what became of the record's properties to the report's counts, which have a row for each that was
/// asked for.
void count_properties(Report&, const CaseRecord&);
ErrorSummary summarise_errors(const std::vector<CaseRecord>&);
/// Fills speedup of each swap_ab record of one problem from its baseline among the others.
void fill_speedups(std::vector<CaseRecord>& records_of_one_problem);

/// Version of the program, "0.1.0".
std::string_view tool_version();

}  // namespace moe::harness
