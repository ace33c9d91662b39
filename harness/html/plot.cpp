#include "harness/html/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr double kWidth = 440, kLeft = 58, kRight = 14, kTop = 10, kBottom = 44;

bool logarithmic(AxisKind kind) {
  return kind == AxisKind::log || kind == AxisKind::log_times || kind == AxisKind::tokens;
}

/// 0..1 along the axis.
double share(const Axis& a, double value) {
  if (logarithmic(a.kind)) return std::log(std::max(value, 1e-300) / a.least) / std::log(a.most / a.least);
  return (value - a.least) / (a.most - a.least);
}

std::vector<double> decades(const Axis& a) {
  std::vector<double> ticks;
  const double width = std::log10(a.most / a.least);
  using Steps = std::vector<double>;
  const Steps steps = width > 2.2   ? Steps{1}
                      : width > 0.8 ? Steps{1, 2, 5}
                                    : Steps{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
  for (double ten = std::pow(10, std::floor(std::log10(a.least))); ten <= a.most; ten *= 10)
    for (const double step : steps)
      if (ten * step >= a.least * 0.999 && ten * step <= a.most * 1.001) ticks.push_back(ten * step);
  return ticks;
}

std::vector<double> powers_of_two(const Axis& a) {
  std::vector<double> ticks;
  const double all = std::floor(std::log2(a.most)) - std::ceil(std::log2(a.least)) + 1;
  const int step = all > 7 ? 2 : 1;
  for (int p = int(std::ceil(std::log2(a.least))); std::exp2(p) <= a.most; p += step)
    ticks.push_back(std::exp2(p));
  return ticks;
}

std::vector<double> even_ticks(const Axis& a) {
  const double range = a.most - a.least, ten = std::pow(10, std::floor(std::log10(range)));
  const double step = range / ten < 2 ? ten / 4 : range / ten < 5 ? ten / 2 : ten;
  std::vector<double> ticks;
  const double first = std::ceil(a.least / step - 1e-9);
  for (int i = 0; i < 20 && (first + i) * step <= a.most + step * 1e-6; ++i)
    ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<double> ticks_of(const Axis& a) {
  if (a.kind == AxisKind::tokens) return powers_of_two(a);
  if (logarithmic(a.kind)) return decades(a);
  if (a.kind != AxisKind::log_two) return even_ticks(a);
  std::vector<double> ticks;
  const int step = a.most - a.least > 10 ? 4 : a.most - a.least > 5 ? 2 : 1;
  for (int t = int(std::ceil(a.least / step)) * step; t <= a.most; t += step) ticks.push_back(t);
  return ticks;
}

std::string tick_text(AxisKind kind, double value) {
  if (kind == AxisKind::log_times)
    return value >= 0.9999e-3 ? fmt::format("{:.3g} ms", value * 1e3) : fmt::format("{:.3g} us", value * 1e6);
  if (kind == AxisKind::log_two)
    return value < 0 ? fmt::format("1/{:.0f}", std::exp2(-value)) : fmt::format("{:.0f}", std::exp2(value));
  return fmt::format("{:.4g}", value);
}

std::string path_of(const std::vector<std::pair<double, double>>& points, const Plot& plot) {
  std::string d;
  for (const auto& [x, y] : points)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", plot.px(x), plot.py(y));
  return d;
}

std::string title_of(const std::string& tooltip) {
  return tooltip.empty() ? "" : "<title>" + escape_markup(tooltip) + "</title>";
}

}  // namespace

Axis axis_around(AxisKind kind, const std::vector<double>& values, std::string label) {
  double least = 0, most = 0;
  for (const double v : values) {
    if (!std::isfinite(v) || (logarithmic(kind) && !(v > 0))) continue;
    least = least == 0 && most == 0 ? v : std::min(least, v), most = std::max(most, v);
  }
  if (!logarithmic(kind)) {
    const double room = std::max(most - least, std::abs(most) * 0.1 + 1e-12) * 0.06;
    return {kind, least - room, most + room, std::move(label)};
  }
  if (!(least > 0)) least = most = 1;
  const double room = std::max(std::pow(most / least, 0.05), 1.15);
  return {kind, least / room, most * room, std::move(label)};
}

Plot::Plot(Axis x, Axis y, double height) : x_(std::move(x)), y_(std::move(y)), height_(height) {}

double Plot::px(double x) const { return kLeft + share(x_, x) * (kWidth - kLeft - kRight); }
double Plot::py(double y) const { return height_ - kBottom - share(y_, y) * (height_ - kTop - kBottom); }

const char* mark_path(int form) {
  static const char* const forms[] = {"M4 0A4 4 0 1 1-4 0 4 4 0 1 1 4 0z", "M-4-4h8v8h-8z", "M0-5L5 4H-5z",
                                      "M0-5.5L5.5 0 0 5.5-5.5 0z"};
  return forms[form & 3];
}

void Plot::mark(double x, double y, int form, std::string_view style, const std::string& tooltip) {
  shapes_ +=
      fmt::format("<path class=\"mark {}\" transform=\"translate({:.1f} {:.1f})\" d=\"{}\">{}</path>\n",
                  style, px(x), py(y), mark_path(form), title_of(tooltip));
}

void Plot::line(const std::vector<std::pair<double, double>>& points, std::string_view style) {
  shapes_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", style, path_of(points, *this));
}

void Plot::area(const std::vector<std::pair<double, double>>& points, std::string_view style) {
  shapes_ += fmt::format("<path class=\"area {}\" d=\"{}Z\"/>\n", style, path_of(points, *this));
}

void Plot::bar(double x_from, double x_to, double y_from, double y_to, std::string_view style,
               const std::string& tooltip) {
  const double left = px(x_from), top = py(y_to);
  shapes_ += svg_rect(left, top, px(x_to) - left, py(y_from) - top, style, tooltip);
}

std::string Plot::axes() const {
  std::string out;
  const double bottom = height_ - kBottom, right = kWidth - kRight;
  for (const double t : ticks_of(x_)) {
    out += fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>", px(t), kTop, bottom);
    out += svg_text(px(t), bottom + 15, Anchor::middle, tick_text(x_.kind, t));
  }
  for (const double t : ticks_of(y_)) {
    out += fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}H{2:.1f}\"/>", kLeft, py(t), right);
    out += svg_text(kLeft - 5, py(t) + 4, Anchor::end, tick_text(y_.kind, t));
  }
  out += svg_text((kLeft + right) / 2, height_ - 8, Anchor::middle, x_.label, "label");
  return out + fmt::format(
                   "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(11 {:.1f}) "
                   "rotate(-90)\">{}</text>\n",
                   (kTop + bottom) / 2, escape_markup(y_.label));
}

std::string Plot::svg(const std::string& title, const std::string& description) const {
  const std::string frame =
      fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", kLeft, kTop,
                  kWidth - kLeft - kRight, height_ - kTop - kBottom);
  return svg_element(kWidth, height_, title, description, axes() + frame + shapes_);
}

std::string svg_element(double width, double height, const std::string& title, const std::string& description,
                        const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}. {}\">\n{}</svg>",
      width, height, escape_markup(title), escape_markup(description), body);
}

std::string svg_rect(double x, double y, double width, double height, std::string_view style,
                     const std::string& tooltip) {
  if (!(width > 0) || !(height > 0)) return {};
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">{}</rect>\n", style, x,
      y, std::max(width, 0.5), height, title_of(tooltip));
}

std::string svg_text(double x, double y, Anchor anchor, const std::string& text, std::string_view style) {
  static const char* const anchors[] = {"start", "middle", "end"};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchors[int(anchor)], style.empty() ? "" : fmt::format(" class=\"{}\"", style),
                     escape_markup(text));
}

}  // namespace moe::harness
