#include <fmt/format.h>

#include <algorithm>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

/// Seconds that the busiest of memory and tensor pipe needs for the case, whatever else there is.
double least_seconds(const Prediction& p, double hbm_bytes_per_s) {
  const double memory = hbm_bytes_per_s > 0 ? p.hbm_bytes / hbm_bytes_per_s : 0;
  return std::max(memory, p.tensor_active * p.seconds);
}

struct Series {
  Layout layout;
  bool measured;
  std::vector<std::pair<double, double>> points;  // tokens, percent
  std::string text() const {
    return fmt::format("{}, {}", name(layout), measured ? "measured" : "predicted");
  }
};

std::optional<double> percent_at(const std::map<Layout, LayoutTime>& at, Layout layout, bool measured,
                                 double rate) {
  const auto found = at.find(layout);
  if (found == at.end()) return std::nullopt;
  const auto seconds = measured ? found->second.measured : found->second.predicted;
  if (!seconds) return std::nullopt;
  return 100 * least_seconds(*found->second.record->prediction, rate) / *seconds;
}

std::vector<Series> series_of(const TokenSweep& sweep, double rate) {
  std::vector<Series> all;
  for (const Layout layout : {Layout::swap_ab, Layout::normal_mma, Layout::normal_wgmma})
    for (const bool measured : {false, true}) {
      Series s{layout, measured, {}};
      for (const auto& [tokens, at] : sweep.at)
        if (const auto percent = percent_at(at, layout, measured, rate))
          s.points.emplace_back(double(tokens), *percent);
      if (!s.points.empty()) all.push_back(std::move(s));
    }
  return all;
}

NumberTable numbers_of(const TokenSweep& sweep, const std::vector<Series>& series, double rate) {
  NumberTable table{{{"tokens", true}}, {}};
  for (const Series& s : series) table.heads.push_back({s.text(), true});
  for (const auto& [tokens, at] : sweep.at) {
    std::vector<std::string> row{std::to_string(tokens)};
    for (const Series& s : series) {
      const auto percent = percent_at(at, s.layout, s.measured, rate);
      row.push_back(percent ? fmt::format("{:.0f} %", *percent) : "");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure chart_of(const TokenSweep& sweep, const std::vector<Series>& series, double rate) {
  std::vector<double> tokens;
  for (const auto& [count, at] : sweep.at) tokens.push_back(double(count));
  double most = 100;
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) most = std::max(most, y);
  Plot plot(axis_around(AxisKind::tokens, tokens, "tokens"),
            {AxisKind::linear, 0, most * 1.03, "of the limit, %"});
  Figure f;
  f.title = sweep.label;
  f.note = rate > 0 ? fmt::format(
                          "The time that the busier of HBM (the bytes the model counts at {}/s) and "
                          "tensor pipe needs, over the time taken. Dashed: predicted.",
                          fmt::format("{:.2f} TB", rate / 1e12))
                    : "The time that the tensor pipe needs over the time taken. Dashed: predicted.";
  for (const Series& s : series) {
    const std::string style = fmt::format("{}{}", name(s.layout), s.measured ? "" : " dashed");
    plot.line(s.points, style);
    for (const auto& [x, y] : s.points)
      plot.mark(x, y, form_of(s.layout), style, fmt::format("{:.0f} tokens, {}: {:.0f} %", x, s.text(), y));
    f.legend.push_back({style, s.text(), form_of(s.layout)});
  }
  f.svg = plot.svg("Fraction of the limit by tokens, " + sweep.label, f.note);
  f.numbers = numbers_of(sweep, series, rate);
  return f;
}

}  // namespace

std::vector<Figure> limit_charts(const std::vector<TokenSweep>& sweeps, double hbm_bytes_per_s) {
  std::vector<Figure> figures;
  for (const TokenSweep& sweep : sweeps) {
    if (sweep.at.size() < 2 || figures.size() == kMostFigures) continue;  // one point is no curve
    const auto series = series_of(sweep, hbm_bytes_per_s);
    if (!series.empty()) figures.push_back(chart_of(sweep, series, hbm_bytes_per_s));
  }
  return figures;
}

}  // namespace moe::harness
