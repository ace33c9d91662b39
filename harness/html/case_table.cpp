#include <fmt/format.h>

#include <algorithm>

#include "harness/html/page.hpp"
#include "harness/report_columns.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kFindings = 100;

std::string table_cell(const Column& c, const std::string& text) {
  const std::string kind = c.heading == "verdict" ? text.substr(0, text.find(' ')) : c.numeric ? "n" : "";
  return fmt::format("<td{}>{}</td>", kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
                     escape_markup(text));
}

bool is_passed(const CaseRecord& r) { return !r.verdict || r.verdict->correctness == Correctness::passed; }

/// "deepseek-v3 tp 8 | swap_ab 16x128x128, 16 tokens".
std::string finding(const CaseRecord& r) {
  const Verdict& v = *r.verdict;
  std::string out = fmt::format("<article class=\"finding\"><p><b>{}, {} tokens, {}</b>: {}</p>",
                                escape_markup(shape_text(r.trial.problem)), r.trial.problem.shape.tokens,
                                escape_markup(choice_text(r.trial.choice)), escape_markup(verdict_text(v)));
  if (!v.fault_class.empty()) out += fmt::format("<p>Looks like {}.</p>", escape_markup(v.fault_class));
  if (!v.replay.empty())
    out += fmt::format("<p class=\"replay\"><code>{}</code></p>", escape_markup(v.replay));
  return out + "</article>\n";
}

}  // namespace

std::string case_section(const Report& report) {
  if (report.cases.empty()) return {};
  const std::vector<Column> columns = report_columns(report);
  std::string out =
      "<section id=\"cases\"><h2>Cases</h2>\n<div class=\"scroll\"><table class=\"data\"><thead><tr>";
  for (const Column& c : columns)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", c.numeric ? " class=\"n\"" : "", c.heading);
  out += "<th scope=\"col\">case</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    out += "<tr>";
    for (const Column& c : columns) out += table_cell(c, c.cells[i]);
    out += fmt::format("<td class=\"line\">{}</td></tr>\n", escape_markup(to_line(report.cases[i].trial)));
  }
  return out + "</tbody></table></div></section>\n";
}

std::string finding_section(const Report& report) {
  std::string out;
  std::size_t shown = 0, all = 0;
  for (const CaseRecord& r : report.cases) {
    if (is_passed(r)) continue;
    const bool plain = r.verdict->correctness == Correctness::skipped && r.verdict->reason.empty();
    if (plain || ++all > kFindings) continue;
    out += finding(r), ++shown;
  }
  if (out.empty()) return {};
  if (all > shown) out += fmt::format("<p>{} more stand in the table.</p>\n", all - shown);
  return "<section id=\"findings\"><h2>Not passed</h2>\n" + out + "</section>\n";
}

std::string property_section(const Report& report) {
  if (report.properties.empty()) return {};
  std::string out =
      "<section id=\"properties\"><h2>Properties</h2>\n<div class=\"scroll\"><table "
      "class=\"data\"><thead><tr><th scope=\"col\">property</th><th scope=\"col\">statement</th><th "
      "scope=\"col\" "
      "class=\"n\">held</th><th scope=\"col\" class=\"n\">failed</th><th scope=\"col\" "
      "class=\"n\">skipped</th><th "
      "scope=\"col\">why</th></tr></thead>\n<tbody>\n";
  for (const PropertyCount& p : report.properties)
    out += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td>{}</td></tr>\n",
        p.failed > 0        ? "failed"
        : p.never_applied() ? "skipped"
                            : "passed",
        escape_markup(p.id), escape_markup(p.statement), p.held, p.failed, p.skipped,
        escape_markup((p.never_applied() ? "never applied: " : "") + p.reason));
  return out + "</tbody></table></div></section>\n";
}

}  // namespace moe::harness
