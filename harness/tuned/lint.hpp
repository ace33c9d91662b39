// What is wrong with a tuned table, or with a folder of them? Errors: what cannot be read or cannot run.
// Warnings: what runs otherwise than it looks, or slower than without the table, by prediction. Notes: what
// no prediction could be made for.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/files/tuned_table.hpp"
#include "fixtures/problem/hardware.hpp"
#include "harness/tuned/rank.hpp"

namespace moe::harness {

enum class Severity { error, warning, note };
std::string_view name(Severity severity);

struct Finding {
  std::string where;  // file, or the table's name in a CSV
  Severity severity = Severity::error;
  std::string rule;        // "shared_memory"
  std::int64_t batch = 0;  // 0: of the whole table
  std::string what;
};

struct LintResult {
  std::size_t tables = 0;
  std::vector<Finding> findings;
  int count(Severity severity) const;
};

/// Looks at one table without predicting:
///   error   tile, shared_memory
///   warning missing_batch, short, never_swaps, dead_key, dead_value, spills
///   note    redundant
std::vector<Finding> lint_table(const TunedTable& table);

/// Predicts what the public models make of a table, each batch beside the framework's default.
class PredictedLint {
 public:
  /// warning slower (beyond the width of a predicted gain); note unpredicted where no card or model fits the
  /// name.
  std::vector<Finding> lint(const TunedTable& table);

 private:
  BatchLoads& loads_of(const Problem& layer, const std::string& key);
  std::map<std::string, std::unique_ptr<BatchLoads>> loads_;
};

/// A folder (its *.json, subfolders included), a table or a CSV of tables. A file that cannot be read is a
/// finding; throws BadInput where there is nothing to look at.
LintResult lint_path(const std::string& path);

std::string lint_table_text(const LintResult&);
std::string lint_json(const LintResult&, const std::string& path);

}  // namespace moe::harness
