// What the self-test found, as text and as Markdown.
#include <fmt/format.h>

#include <algorithm>

#include "harness/kill_sums.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

/// "truth, P1, P8 +3".
std::string killers_text(const KillRow& row) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(row.killed_by.size(), kNamed); ++i)
    text += (text.empty() ? "" : ", ") + row.killed_by[i];
  if (row.killed_by.size() > kNamed) text += fmt::format(" +{}", row.killed_by.size() - kNamed);
  return text;
}

const char* way_of(const KillRow& row) { return row.declared ? "declared" : "undeclared"; }

std::string times_text(double distance) { return distance > 0 ? fmt::format("{:.2g}x", distance) : ""; }

std::string kinds_table(const std::vector<KillRow>& rows) {
  std::string out =
      "| kind of fault | faults | declared: seeds that find it | undeclared | case that fails first | runs "
      "to "
      "shrink | times the smallest trigger | rows above twice |\n|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const KillSum& s : kill_sums(rows))
    out += fmt::format("| {} | {}{} | {} of {} | {} of {} | {} | {} | {} | {} |\n", s.kind, s.faults,
                       s.not_tried > 0 ? fmt::format(", {} not tried", s.not_tried) : "", s.killed[0],
                       s.seeds[0], s.killed[1], s.seeds[1], s.cases, s.runs, times_text(s.distance), s.far);
  return out;
}

}  // namespace

std::string kill_line(const KillRow& row) {
  if (!row.why_not.empty()) {
    if (!row.declared) return {};
    return fmt::format("{:<6} not tried: {}\n", row.fault, row.why_not);
  }
  return fmt::format("{:<6} {:<10} {:>2}/{:<2} {:<24} {:>6} {:>4} runs  {}\n", row.fault, way_of(row),
                     row.killed, row.seeds, killers_text(row), times_text(row.distance), row.runs, row.text);
}

std::string self_test_text(const std::vector<KillRow>& rows) {
  std::string out;
  for (const KillRow& row : rows) out += kill_line(row);
  for (const KillSum& s : kill_sums(rows))
    out += fmt::format(
        "{}: {} faults, {} not tried; seeds that find them: declared {} of {}, undeclared {} of {}\n", s.kind,
        s.faults, s.not_tried, s.killed[0], s.seeds[0], s.killed[1], s.seeds[1]);
  return out;
}

std::string self_test_markdown(const std::vector<KillRow>& rows) {
  std::string out = "### moeproof check --self-test\n\n" + kinds_table(rows);
  out +=
      "\n| fault | kind | what | judged | seeds | by | first case | runs | times the trigger | smallest case "
      "|\n"
      "|---|---|---|---|---:|---|---:|---:|---:|---|\n";
  for (const KillRow& row : rows) {
    const std::string begin = fmt::format("| {} | {} | {} | ", row.fault, row.kind, markdown_cell(row.text));
    if (!row.why_not.empty()) {
      if (row.declared)
        out += begin + fmt::format("not tried |  | {} |  |  |  |  |\n", markdown_cell(row.why_not));
      continue;
    }
    out +=
        begin + fmt::format("{} | {}/{} | {} | {} | {} | {} | {} |\n", way_of(row), row.killed, row.seeds,
                            markdown_cell(killers_text(row)), row.killed > 0 ? std::to_string(row.cases) : "",
                            row.shrunk.empty() ? "" : std::to_string(row.runs), times_text(row.distance),
                            row.shrunk.empty() ? "" : markdown_code(row.shrunk));
  }
  return out;
}

}  // namespace moe::harness
