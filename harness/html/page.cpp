#include "harness/html/page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "fixtures/files/embedded.hpp"
#include "harness/html/charts.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe {
std::span<const EmbeddedFile> page_files();  // page.css and page.js, put in by the build
}

namespace moe::harness {
namespace {

std::string_view page_file(std::string_view wanted) {
  for (const EmbeddedFile& file : page_files())
    if (file.name.ends_with(wanted)) return file.bytes;
  return {};
}

std::string word_counts(const Report& report) {
  std::string out = "<ul class=\"counts\">";
  for (int c = 0; c <= int(Correctness::timed_out); ++c) {
    const int n = count_of(report, Correctness(c));
    if (n > 0)
      out += fmt::format("<li class=\"{0}\"><b>{1}</b> {0}</li>", name(Correctness(c)), count_text(n));
  }
  return out + "</ul>\n";
}

std::string heading(const PageContent& page) {
  const Report& report = page.report;
  std::string out = fmt::format("<header><h1>moeproof {}</h1>\n<p>{}</p>\n", escape_markup(report.command),
                                escape_markup(summary_text(report)));
  if (!report.cases.empty())
    out += fmt::format("<p>{}; {}; executor {}</p>\n",
                       escape_markup(shape_text(report.cases.front().trial.problem)),
                       escape_markup(report.device ? report.device->name : "no device"),
                       escape_markup(report.executor.empty() ? "none" : report.executor));
  const bool predicts = std::any_of(report.cases.begin(), report.cases.end(),
                                    [](const CaseRecord& r) { return r.prediction.has_value(); });
  if (predicts && !report.hardware.empty())
    out += fmt::format("<p>{}</p>\n", escape_markup(prediction_text(report)));
  if (!page.sources.empty())
    out +=
        fmt::format("<p>made of {}</p>\n", escape_markup(fmt::format("{}", fmt::join(page.sources, ", "))));
  return out + word_counts(report) + "</header>\n";
}

std::string kill_section(const std::vector<KillRow>& rows) {
  if (rows.empty()) return {};
  return section_html("kills", "Planted faults", kill_charts(rows)) +
         "<section id=\"kill-matrix\"><h2>Who finds which fault</h2>\n" +
         table_html(kill_matrix(rows), true) + "</section>\n";
}

}  // namespace

std::string html_page(const PageContent& page) {
  const Report& report = page.report;
  const std::vector<TokenSweep> sweeps = token_sweeps(report);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/><meta name=\"color-scheme\" content=\"light dark\"/>"
      "<title>moeproof {}</title>\n<style>{}</style></head>\n<body>\n",
      escape_markup(report.command), page_file("page.css"));
  out += heading(page) + "<main>\n";
  out += section_html("faults", "Where it is wrong", fault_maps(report)) + finding_section(report);
  out += section_html("agreement", "Model and measurement", agreement_charts(report));
  out += section_html("gains", "Gain of Swap-AB by tokens", gain_charts(sweeps));
  out +=
      section_html("limits", "Fraction of the limit by tokens", limit_charts(sweeps, report.hbm_bytes_per_s));
  out += section_html("waterfalls", "Where the time goes", waterfall_charts(report));
  out += section_html("ratios", "Errors over their bounds", ratio_charts(report));
  out += kill_section(report.self_test);
  out += section_html("census", "What Triton compiles again", census_charts(page.censuses));
  out += property_section(report) + case_section(report) + detail_section(report);
  return out +
         fmt::format("</main>\n<footer><p>moeproof {}</p></footer>\n<script>{}</script></body></html>\n",
                     tool_version(), page_file("page.js"));
}

std::string html_report(const Report& report) { return html_page({report, {}, {}}); }

}  // namespace moe::harness
