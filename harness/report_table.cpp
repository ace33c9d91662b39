#include <fmt/format.h>

#include <algorithm>
#include <map>

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

namespace {

/// Reasons that are told one by one: kernels put a case's sizes into theirs.
constexpr std::size_t kReasons = 4;

bool did_not_run(const CaseRecord& r) {
  return r.verdict->correctness == Correctness::refused || r.verdict->correctness == Correctness::skipped;
}

std::string place_text(const CaseRecord& r) {
  const std::string kernel = r.trial.choice.kernel == "moeproof" ? "" : r.trial.choice.kernel + " ";
  return fmt::format("{}{}, {} tokens", kernel, choice_text(r.trial.choice), r.trial.problem.shape.tokens);
}

std::string replay_text(const Verdict& v) {
  return v.replay.empty() ? "" : fmt::format("  replay: {}\n", v.replay);
}

/// Cases with one reason, once.
struct Refused {
  const CaseRecord* first;
  int cases = 0;
};

std::vector<Refused> refused_by_reason(const Report& report) {
  std::vector<Refused> reasons;
  std::map<std::string, std::size_t> known;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || !did_not_run(r)) continue;
    const auto [at, is_new] = known.emplace(verdict_text(*r.verdict), reasons.size());
    if (is_new) reasons.push_back({&r});
    ++reasons[at->second].cases;
  }
  return reasons;
}

std::string by_reason(const std::vector<Refused>& reasons) {
  std::string out;
  int others = 0;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const auto& [first, cases] = reasons[i];
    if (i >= kReasons) {
      others += cases;
      continue;
    }
    out += place_text(*first) + (cases > 1 ? fmt::format(" and {} more", cases - 1) : "");
    out += fmt::format("\n  {}\n{}", verdict_text(*first->verdict), replay_text(*first->verdict));
  }
  if (others > 0)
    out += fmt::format("{} more refused, for {} other reasons\n", others, reasons.size() - kReasons);
  return out;
}

std::string counted(const std::vector<Refused>& reasons, const Report& report) {
  std::size_t cases = 0;
  for (const Refused& r : reasons) cases += std::size_t(r.cases);
  if (cases == 0 || (cases == report.cases.size() && report.unlisted.passed == 0)) return "";
  return fmt::format("{} of {} cases did not run; the first: {}: {}\n", cases,
                     report.cases.size() + std::size_t(report.unlisted.passed),
                     place_text(*reasons.front().first), verdict_text(*reasons.front().first->verdict));
}

}  // namespace

std::string failures_text(const Report& report, Refusals refusals) {
  std::string out;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness == Correctness::passed || did_not_run(r)) continue;
    out += fmt::format("{}\n  {}\n", place_text(r), verdict_text(*r.verdict));
    if (!r.verdict->fault_class.empty()) out += fmt::format("  looks like {}\n", r.verdict->fault_class);
    out += log_text(r.verdict->log) + replay_text(*r.verdict);
  }
  const std::vector<Refused> reasons = refused_by_reason(report);
  return out + (refusals == Refusals::counted ? counted(reasons, report) : by_reason(reasons));
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
