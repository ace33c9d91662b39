#include <fmt/format.h>

#include "harness/report_columns.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

const char* const kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:1rem 0}th,td{padding:.3rem .7rem;border-bottom:1px solid #ddd;"
    "text-align:left}th{border-bottom-color:#888}.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".passed{color:#0a6b2b}.failed,.crashed,.timed_out{color:#b00020;font-weight:600}"
    ".mistrusted,.refused,.skipped{color:#8a5a00}code{background:#f4f4f4;padding:.1rem .3rem;"
    "overflow-wrap:anywhere}section{margin:1rem 0;border-left:3px solid #b00020;padding-left:1rem}";

std::string table_cell(const Column& c, const std::string& text) {
  const std::string kind = c.heading == "verdict" ? text : c.numeric ? "n" : "";
  return fmt::format("<td{}>{}</td>", kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
                     escape_markup(text));
}

std::string finding(const CaseRecord& r) {
  const Verdict& v = *r.verdict;
  std::string out = fmt::format("<section><p><b>{}</b>: {}</p>", escape_markup(choice_text(r.trial.choice)),
                                escape_markup(verdict_text(v)));
  if (!v.fault_class.empty()) out += fmt::format("<p>Looks like {}.</p>", escape_markup(v.fault_class));
  if (!v.replay.empty()) out += fmt::format("<p><code>{}</code></p>", escape_markup(v.replay));
  return out + "</section>\n";
}

}  // namespace

std::string html_report(const Report& report) {
  const auto columns = report_columns(report);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>moeproof {0}</title>"
      "<style>{1}</style></head>\n<body><h1>moeproof {0}</h1>\n<p>{2}</p>\n",
      escape_markup(report.command), kStyle, escape_markup(summary_text(report)));
  if (!report.cases.empty())
    out += fmt::format("<p>{}; {}; executor {}</p>\n",
                       escape_markup(shape_text(report.cases.front().trial.problem)),
                       escape_markup(report.device ? report.device->name : "no device"),
                       escape_markup(report.executor.empty() ? "none" : report.executor));
  out += "<table><thead><tr>";
  for (const Column& c : columns)
    out += fmt::format("<th{}>{}</th>", c.numeric ? " class=\"n\"" : "", c.heading);
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    out += "<tr>";
    for (const Column& c : columns) out += table_cell(c, c.cells[i]);
    out += "</tr>\n";
  }
  out += "</tbody></table>\n";
  for (const CaseRecord& r : report.cases)
    if (r.verdict && r.verdict->correctness != Correctness::passed) out += finding(r);
  return out + fmt::format("<p>moeproof {}</p></body></html>\n", tool_version());
}

}  // namespace moe::harness
