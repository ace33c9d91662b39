#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/text.hpp"
#include "harness/report_columns.hpp"
#include "harness/reporters.hpp"
#include "harness/values.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kColumns = 80, kGap = 2;

std::size_t width_of(const Column& c) {
  std::size_t width = c.heading.size();
  for (const std::string& cell : c.cells) width = std::max(width, cell.size());
  return width;
}

std::size_t width_of(const std::vector<Column>& columns) {
  std::size_t width = 0;
  for (const Column& c : columns) width += kGap + width_of(c);
  return width;
}

/// Columns that say the same for every case go to the heading line; then the least needed go until 80 columns
/// do.
std::string lift_constants(std::vector<Column>& columns, const std::string& command) {
  std::string heading;
  for (auto c = columns.begin(); c != columns.end();) {
    const bool constant =
        c->cells.size() > 1 && c->heading != "verdict" &&
        std::all_of(c->cells.begin(), c->cells.end(), [&](const auto& x) { return x == c->cells[0]; });
    const bool lift = constant && (c->heading == "load" || c->heading == "tokens" || c->heading == "layout");
    if (lift) heading += fmt::format("  {} {}", c->heading, c->cells[0]);
    c = lift ? columns.erase(c) : c + 1;
  }
  // `compare` is read for the model's error, the others for the verdict.
  static const std::vector<std::string> for_compare{"useful", "limit", "tensor", "verdict", "load", "+-"};
  static const std::vector<std::string> for_others{"speed",  "useful", "limit", "model",
                                                   "tensor", "load",   "+-"};
  for (const std::string& least : command == "compare" ? for_compare : for_others) {
    if (width_of(columns) <= kColumns) break;
    std::erase_if(columns, [&](const Column& c) { return c.heading == least; });
  }
  return heading;
}

const char* colour_of(const std::string& verdict) {
  if (verdict.starts_with("passed")) return "\x1b[32m";
  if (verdict == "refused" || verdict == "skipped" || verdict == "mistrusted") return "\x1b[33m";
  return "\x1b[31m";
}

std::string cell_text(const Column& c, const std::string& text, bool colours) {
  const std::string padded =
      c.numeric ? fmt::format("{:>{}}", text, width_of(c)) : fmt::format("{:<{}}", text, width_of(c));
  if (!colours || c.heading != "verdict" || text.empty()) return padded;
  return colour_of(text) + padded + "\x1b[0m";
}

std::string trimmed(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + "\n";
}

}  // namespace

namespace {

constexpr int kLogLines = 8;

/// The last lines that a lost process wrote, marked as its own.
std::string log_text(std::string_view log) {
  std::vector<std::string> lines;
  for (const std::string& line : split(log, '\n'))
    if (!line.empty()) lines.push_back(one_line(line));
  std::string out;
  for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), kLogLines); i < lines.size(); ++i)
    out += "  | " + lines[i] + "\n";
  return out;
}

}  // namespace

std::string failures_text(const Report& report) {
  std::string out;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness == Correctness::passed) continue;
    const std::string kernel = r.trial.choice.kernel == "moeproof" ? "" : r.trial.choice.kernel + " ";
    out += fmt::format("{}{}, {} tokens\n  {}\n", kernel, choice_text(r.trial.choice),
                       r.trial.problem.shape.tokens, verdict_text(*r.verdict));
    if (!r.verdict->fault_class.empty()) out += fmt::format("  looks like {}\n", r.verdict->fault_class);
    out += log_text(r.verdict->log);
    if (!r.verdict->replay.empty()) out += fmt::format("  replay: {}\n", r.verdict->replay);
  }
  return out;
}

namespace {

/// How to judge to the bit what only bounds judged; empty where bits judged, or designed data did not help.
std::string remedy_text(const Report& report) {
  std::string data;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness != Correctness::passed) continue;
    const Problem& p = r.trial.problem;
    if (!r.verdict->judged_by.ends_with("probable bound") || p.data == DataMode::exact) continue;
    if (data.empty()) data = "exact";
    if (p.op == Op::grouped_gemm) data = "exact,coded";
  }
  if (data.empty()) return "";
  return fmt::format(
      "to the bit, whatever it rounds: --data {} (in a case line data=exact), which leave one answer\n",
      data);
}

}  // namespace

std::string notes_text(const Report& report) {
  std::vector<std::pair<std::string, int>> notes;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness != Correctness::passed || r.verdict->reason.empty()) continue;
    const auto known =
        std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == r.verdict->reason; });
    if (known == notes.end())
      notes.emplace_back(r.verdict->reason, 1);
    else
      ++known->second;
  }
  std::string out;
  for (const auto& [reason, n] : notes) out += fmt::format("{} passed: {}\n", n, reason);
  return out + remedy_text(report);
}

std::string table_report(const Report& report, bool colours) {
  std::vector<Column> columns = report_columns(report);
  const std::string lifted = lift_constants(columns, report.command);
  std::string out = report.command;
  if (!report.cases.empty()) out += "  " + shape_text(report.cases.front().trial.problem);
  out += lifted;
  if (!report.executor.empty()) out += "  executor " + report.executor;
  if (!report.chosen.empty()) out += fmt::format("  ({})", report.chosen);
  out += report.device ? fmt::format(" ({})", report.device->name) : "";
  out += "\n";
  std::string heading;
  for (const Column& c : columns) heading += std::string(kGap, ' ') + cell_text(c, c.heading, false);
  if (!report.cases.empty()) out += trimmed(heading);
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    std::string line;
    for (const Column& c : columns) line += std::string(kGap, ' ') + cell_text(c, c.cells[i], colours);
    out += trimmed(line);
  }
  if (std::any_of(report.cases.begin(), report.cases.end(),
                  [](const CaseRecord& r) { return bool(r.prediction); }))
    out += prediction_text(report) + "\n";
  out += notes_text(report) + properties_text(report) + failures_text(report);
  if (report.errors.n > 0)
    out += fmt::format(
        "model against measured over {} cases: mean error {:.1f} %, median {:.1f} %, p90 {:.1f} %\n",
        report.errors.n, 100 * report.errors.mean, 100 * report.errors.median, 100 * report.errors.p90);
  return out + summary_text(report) + "\n";
}

}  // namespace moe::harness
