#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/text.hpp"
#include "harness/report_columns.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : one_line(text))
    out += c == '|' ? std::string("\\|") : c == '<' ? std::string("&lt;") : std::string(1, c);
  return out;
}

std::string markdown_code(const std::string& any) {
  const std::string text = one_line(any);  // a line break would end the span, other bytes the document
  std::size_t longest = 0, run = 0;
  for (const char c : text) run = c == '`' ? run + 1 : 0, longest = std::max(longest, run);
  const std::string fence(longest + 1, '`');
  return longest == 0 ? fence + text + fence : fence + " " + text + " " + fence;
}

std::string markdown_report(const Report& report) {
  if (!report.self_test.empty()) return self_test_markdown(report.self_test);
  const auto columns = report_columns(report);
  std::string out = fmt::format("### moeproof {}: {}\n\n", report.command, summary_text(report));
  if (!report.cases.empty()) {
    const std::string device = report.device ? report.device->name : "no device";
    out += fmt::format("{}; {}; {}seed {}\n\n", shape_text(report.cases.front().trial.problem), device,
                       report.executor.empty() ? "" : "executor " + markdown_code(report.executor) + "; ",
                       report.cases.front().trial.problem.seed);
  }
  std::string heading = "|", rule = "|";
  for (const Column& c : columns) heading += " " + c.heading + " |", rule += c.numeric ? "---:|" : "---|";
  if (!columns.empty()) out += heading + "\n" + rule + "\n";
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    std::string line = "|";
    for (const Column& c : columns) line += " " + markdown_cell(c.cells[i]) + " |";
    out += line + "\n";
  }
  for (const std::string& note : split(notes_text(report), '\n'))
    if (!note.empty()) out += fmt::format("\n- {}\n", markdown_cell(note));
  if (!report.properties.empty())
    out += "\n| property | held | failed | skipped | why |\n|---|---:|---:|---:|---|\n";
  for (const PropertyCount& p : report.properties)
    out += fmt::format("| {} {} | {} | {} | {} | {} |\n", p.id, markdown_cell(p.statement), p.held, p.failed,
                       p.skipped, markdown_cell((p.never_applied() ? "never applied: " : "") + p.reason));
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness == Correctness::passed) continue;
    out += fmt::format("\n- {}\n", markdown_cell(verdict_text(*r.verdict)));
    if (!r.verdict->fault_class.empty())
      out += fmt::format("  - looks like {}\n", markdown_cell(r.verdict->fault_class));
    if (!r.verdict->replay.empty()) out += fmt::format("  - replay: {}\n", markdown_code(r.verdict->replay));
  }
  if (report.errors.n > 0)
    out += fmt::format(
        "\nModel against measured over {} cases: mean error {:.1f} %, median {:.1f} %, p90 {:.1f} %\n",
        report.errors.n, 100 * report.errors.mean, 100 * report.errors.median, 100 * report.errors.p90);
  return out;
}

}  // namespace moe::harness
