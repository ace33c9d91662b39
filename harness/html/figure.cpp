#include "harness/html/figure.hpp"

#include <fmt/format.h>

#include "harness/html/plot.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

/// More rows would make the page heavier than the picture; the JSON has them.
constexpr std::size_t kMostNumbers = 300;

std::string legend_html(const std::vector<LegendEntry>& legend) {
  if (legend.empty()) return {};
  std::string out = "<ul class=\"legend\">";
  for (const LegendEntry& e : legend)
    out += fmt::format(
        "<li><svg class=\"key {0}\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"line\" d=\"M1 "
        "6H27\"/>"
        "<path class=\"mark\" transform=\"translate(14 6)\" d=\"{2}\"/></svg>{1}</li>",
        escape_markup(e.style), escape_markup(e.text), mark_path(e.form));
  return out + "</ul>\n";
}

std::string numbers_html(const NumberTable& table) {
  if (table.rows.empty()) return {};
  NumberTable shown = table;
  const std::size_t rows = table.rows.size();
  if (rows > kMostNumbers) shown.rows.resize(kMostNumbers);
  const std::string cut =
      rows > kMostNumbers ? fmt::format("<p>The first {} of {} rows.</p>", kMostNumbers, rows) : "";
  return "<details class=\"numbers\"><summary>numbers</summary>" + cut + table_html(shown, false) +
         "</details>\n";
}

}  // namespace

std::string table_html(const NumberTable& table, bool controls) {
  std::string out =
      fmt::format("<div class=\"scroll\"><table{}><thead><tr>", controls ? " class=\"data\"" : "");
  for (const auto& head : table.heads)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", head.numeric ? " class=\"n\"" : "",
                       escape_markup(head.text));
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out +=
          fmt::format("<td{}>{}</td>", table.heads[i].numeric ? " class=\"n\"" : "", escape_markup(row[i]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string figure_html(const Figure& f) {
  return fmt::format("<figure><figcaption><h3>{}</h3><p>{}</p></figcaption>\n{}{}\n{}</figure>\n",
                     escape_markup(f.title), escape_markup(f.note), legend_html(f.legend), f.svg,
                     numbers_html(f.numbers));
}

std::string section_html(const std::string& id, const std::string& title,
                         const std::vector<Figure>& figures) {
  if (figures.empty()) return {};
  std::string out =
      fmt::format("<section id=\"{}\"><h2>{}</h2>\n<div class=\"figures\">\n", id, escape_markup(title));
  for (const Figure& f : figures) out += figure_html(f);
  return out + "</div></section>\n";
}

}  // namespace moe::harness
