#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

/// More marks than this carry no tooltip, so that the page stays light.
constexpr std::size_t kMostTooltips = 1500;

struct Point {
  const CaseRecord* record;
  double predicted, measured;
};

std::vector<Point> points_of(const Report& report) {
  std::vector<Point> points;
  for (const CaseRecord& r : report.cases) {
    const auto measured = measured_seconds(r);
    if (measured && r.prediction && r.prediction->seconds > 0)
      points.push_back({&r, r.prediction->seconds, *measured});
  }
  return points;
}

double median_uncertainty(const std::vector<Point>& points) {
  std::vector<double> all;
  for (const Point& p : points) all.push_back(p.record->prediction->uncertainty);
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

void draw_band(Plot& plot, const Axis& axis, double width) {
  const double a = axis.least, b = axis.most, low = std::max(1 - width, 0.02);
  const auto inside = [&](double y) { return std::clamp(y, a, b); };
  plot.area({{a, inside(a * low)},
             {b, inside(b * low)},
             {b, b},
             {std::max(b / (1 + width), a), b},
             {a, inside(a * (1 + width))}},
            "band");
  plot.line({{a, a}, {b, b}}, "same");
}

/// One mark a place: points that would cover one another are drawn once.
void draw_points(Plot& plot, const std::vector<Point>& points) {
  std::set<std::tuple<int, int, Layout>> taken;
  for (const Point& p : points) {
    const Choice& c = p.record->trial.choice;
    if (!taken.emplace(int(plot.px(p.predicted)), int(plot.py(p.measured)), c.layout).second) continue;
    std::string tooltip;
    if (points.size() <= kMostTooltips)
      tooltip = fmt::format("{}, {} tokens, {}: predicted {}, measured {}",
                            shape_text(p.record->trial.problem), p.record->trial.problem.shape.tokens,
                            choice_text(c), seconds_text(p.predicted), seconds_text(p.measured));
    plot.mark(p.predicted, p.measured, form_of(c.layout), name(c.layout), tooltip);
  }
}

NumberTable numbers_of(const std::vector<Point>& points) {
  NumberTable table{{{"problem"},
                     {"tokens", true},
                     {"choice"},
                     {"predicted", true},
                     {"measured", true},
                     {"model off by", true},
                     {"stated +-", true}},
                    {}};
  for (const Point& p : points)
    table.rows.push_back(
        {shape_text(p.record->trial.problem), std::to_string(p.record->trial.problem.shape.tokens),
         choice_text(p.record->trial.choice), seconds_text(p.predicted), seconds_text(p.measured),
         fmt::format("{:+.0f} %", 100 * (p.predicted / p.measured - 1)),
         percent_text(p.record->prediction->uncertainty)});
  return table;
}

}  // namespace

std::vector<Figure> agreement_charts(const Report& report) {
  const std::vector<Point> points = points_of(report);
  if (points.empty()) return {};
  std::vector<double> times;
  std::set<Layout> layouts;
  std::size_t inside = 0;
  for (const Point& p : points) {
    times.insert(times.end(), {p.predicted, p.measured});
    layouts.insert(p.record->trial.choice.layout);
    inside += std::abs(p.measured / p.predicted - 1) <= p.record->prediction->uncertainty;
  }
  const double width = median_uncertainty(points);
  const Axis axis = axis_around(AxisKind::log_times, times, "predicted");
  Plot plot(axis, {axis.kind, axis.least, axis.most, "measured (median)"}, 400);
  draw_band(plot, axis, width);
  draw_points(plot, points);
  Figure f;
  f.title = "Predicted against measured";
  f.note = fmt::format(
      "{} cases; the line is y = x, the band +-{} (the median of the stated uncertainties); {} cases lie "
      "within "
      "their own. Mean error {:.1f} %, median {:.1f} %, p90 {:.1f} % of the measured time.",
      points.size(), percent_text(width), inside, 100 * report.errors.mean, 100 * report.errors.median,
      100 * report.errors.p90);
  for (const Layout l : layouts)
    f.legend.push_back({std::string(name(l)) + " marks", std::string(name(l)), form_of(l)});
  f.svg = plot.svg(f.title, f.note);
  f.numbers = numbers_of(points);
  return {f};
}

}  // namespace moe::harness
