#include <fmt/format.h>

#include <utility>
#include <vector>

#include "harness/report_columns.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

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
  const std::string kind = c.heading == "verdict" ? text.substr(0, text.find(' ')) : c.numeric ? "n" : "";
  return fmt::format("<td{}>{}</td>", kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
                     escape_markup(text));
}

std::string fact(const char* name, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, escape_markup(value));
}

std::string prediction_facts(const Prediction& p) {
  std::string parts;
  for (const Part& part : p.parts)
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.name, seconds_text(part.seconds));
  return fact("why", p.reason) + fact("predicted", parts) +
         fact("bytes", fmt::format("{} from HBM, {} from L2, {} from shared memory", bytes_text(p.hbm_bytes),
                                   bytes_text(p.l2_bytes), bytes_text(p.shared_bytes))) +
         fact("tiles", fmt::format("{} in {:.2f} waves, padding {}, tail {}", count_text(p.counts.tiles),
                                   p.waves, percent_text(p.padding), percent_text(p.tail)));
}

/// Elements compared, stage by stage.
std::string judged_facts(const Verdict& v) {
  std::vector<std::pair<std::string, std::int64_t>> stages;
  for (const BlockVerdict& b : v.blocks) {
    if (stages.empty() || stages.back().first != b.stage) stages.emplace_back(b.stage, 0);
    stages.back().second += b.checked;
  }
  std::string text;
  for (const auto& [stage, checked] : stages)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", stage, count_text(checked));
  return fact("judged",
              fmt::format("{} elements ({}), by {}, coverage {:.1f} %, {} wrong", count_text(v.checked), text,
                          v.judged_by, 100 * v.coverage, count_text(v.wrong)));
}

/// What a case's row has no room for.
std::string details(const CaseRecord& r) {
  std::string out = fmt::format("<details><summary>{}, {} tokens</summary><table>\n",
                                escape_markup(choice_text(r.trial.choice)), r.trial.problem.shape.tokens);
  if (r.prediction && r.prediction->seconds > 0) out += prediction_facts(*r.prediction);
  if (r.measurement && !r.measurement->seconds.empty()) {
    std::string stages;
    for (const StageTime& s : r.measurement->stages)
      stages += fmt::format("{}{} {}", stages.empty() ? "" : ", ", s.stage,
                            s.seconds.empty() ? "-" : seconds_text(s.seconds[s.seconds.size() / 2]));
    out += fact("measured", fmt::format("{} (spread {:.1f} %); {}", seconds_text(r.measurement->median()),
                                        100 * r.measurement->spread(), stages));
  }
  if (r.verdict && !r.verdict->judged_by.empty()) out += judged_facts(*r.verdict);
  if (r.verdict && !r.verdict->reason.empty()) out += fact("because", r.verdict->reason);
  if (r.verdict && !r.verdict->replay.empty()) out += fact("replay", r.verdict->replay);
  return out + "</table></details>\n";
}

std::string property_rows(const Report& report) {
  if (report.properties.empty()) return {};
  std::string out =
      "<table><thead><tr><th>property</th><th></th><th class=\"n\">held</th><th class=\"n\">failed</th>"
      "<th class=\"n\">skipped</th><th>why</th></tr></thead>\n<tbody>\n";
  for (const PropertyCount& p : report.properties)
    out += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td>"
        "<td>{}</td></tr>\n",
        p.failed > 0        ? "failed"
        : p.never_applied() ? "skipped"
                            : "passed",
        escape_markup(p.id), escape_markup(p.statement), p.held, p.failed, p.skipped,
        escape_markup((p.never_applied() ? "never applied: " : "") + p.reason));
  return out + "</tbody></table>\n";
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
  if (!report.hardware.empty()) out += fmt::format("<p>{}</p>\n", escape_markup(prediction_text(report)));
  out += property_rows(report);
  for (const CaseRecord& r : report.cases) out += details(r);
  for (const CaseRecord& r : report.cases)
    if (r.verdict && r.verdict->correctness != Correctness::passed) out += finding(r);
  return out + fmt::format("<p>moeproof {}</p></body></html>\n", tool_version());
}

}  // namespace moe::harness
