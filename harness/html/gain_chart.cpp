#include <fmt/format.h>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

using Times = std::optional<double> LayoutTime::*;

struct Series {
  Layout baseline;
  Times which;
  std::vector<std::pair<double, double>> points;  // tokens, gain
  bool measured() const { return which == &LayoutTime::measured; }
};

std::optional<double> gain_at(const std::map<Layout, LayoutTime>& at, Layout baseline, Times which) {
  const auto own = at.find(Layout::swap_ab), other = at.find(baseline);
  if (own == at.end() || other == at.end()) return std::nullopt;
  return gain_of(other->second, own->second, which);
}

std::vector<Series> series_of(const TokenSweep& sweep) {
  std::vector<Series> all;
  for (const Layout baseline : {Layout::normal_mma, Layout::normal_wgmma})
    for (const Times which : {&LayoutTime::predicted, &LayoutTime::measured}) {
      Series s{baseline, which, {}};
      for (const auto& [tokens, at] : sweep.at)
        if (const auto gain = gain_at(at, baseline, which)) s.points.emplace_back(double(tokens), *gain);
      if (!s.points.empty()) all.push_back(std::move(s));
    }
  return all;
}

std::string what(const Series& s) {
  return fmt::format("over {}, {}", name(s.baseline), s.measured() ? "measured" : "predicted");
}

NumberTable numbers_of(const TokenSweep& sweep, const std::vector<Series>& series) {
  NumberTable table{{{"tokens", true}}, {}};
  for (const Series& s : series) table.heads.push_back({what(s), true});
  for (const auto& [tokens, at] : sweep.at) {
    std::vector<std::string> row{std::to_string(tokens)};
    for (const Series& s : series) {
      const auto gain = gain_at(at, s.baseline, s.which);
      row.push_back(gain ? ratio_text(*gain) : "");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure chart_of(const TokenSweep& sweep, const std::vector<Series>& series) {
  std::vector<double> tokens, gains{1};
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) tokens.push_back(x), gains.push_back(y);
  const Axis x = axis_around(AxisKind::tokens, tokens, "tokens");
  Plot plot(x, axis_around(AxisKind::log, gains, "gain: baseline's time / swap_ab's"));
  plot.line({{x.least, 1}, {x.most, 1}}, "same");
  Figure f;
  f.title = sweep.label;
  f.note = "Above 1 swap_ab is faster. Dashed: predicted; drawn through: measured (medians).";
  for (const Series& s : series) {
    const std::string style = fmt::format("{}{}", name(s.baseline), s.measured() ? "" : " dashed");
    plot.line(s.points, style);
    for (const auto& [x_at, y] : s.points)
      plot.mark(x_at, y, form_of(s.baseline), style,
                fmt::format("{:.0f} tokens, {}: {}", x_at, what(s), ratio_text(y)));
    f.legend.push_back({style, what(s), form_of(s.baseline)});
  }
  f.svg = plot.svg("Gain of swap_ab by tokens, " + sweep.label, f.note);
  f.numbers = numbers_of(sweep, series);
  return f;
}

}  // namespace

std::vector<Figure> gain_charts(const std::vector<TokenSweep>& sweeps) {
  std::vector<Figure> figures;
  for (const TokenSweep& sweep : sweeps)
    if (const auto series = series_of(sweep); !series.empty() && figures.size() < kMostFigures)
      figures.push_back(chart_of(sweep, series));
  return figures;
}

}  // namespace moe::harness
