// How is a chart drawn? A plot has two axes and collects SVG shapes in data coordinates; the page's style
// gives colours and dashes by class, so that one picture serves light, dark and paper.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moe::harness {

enum class AxisKind {
  linear,
  log,        // labels 1, 2, 5 and their tens
  log_times,  // as log; labels are times
  tokens,     // as log; labels are the powers of two
  log_two,    // values are exponents of two; labels 1/4, 1/2, 1, 2
};

struct Axis {
  AxisKind kind = AxisKind::linear;
  double least = 0, most = 1;
  std::string label;  // with its unit
};

/// From the smallest to the largest value with some room; a logarithmic axis drops what is not above 0.
Axis axis_around(AxisKind kind, const std::vector<double>& values, std::string label);

/// "%"-free SVG of width 440; the height is what the plot was given.
class Plot {
 public:
  Plot(Axis x, Axis y, double height = 300);

  double px(double x) const;
  double py(double y) const;
  /// Marks differ by form too: circle, square, triangle, diamond by `form` 0..3.
  void mark(double x, double y, int form, std::string_view style, const std::string& tooltip);
  void line(const std::vector<std::pair<double, double>>& points, std::string_view style);
  void area(const std::vector<std::pair<double, double>>& points, std::string_view style);
  void bar(double x_from, double x_to, double y_from, double y_to, std::string_view style,
           const std::string& tooltip);
  /// The whole element, `description` for those who do not see it.
  std::string svg(const std::string& title, const std::string& description) const;

 private:
  std::string axes() const;

  Axis x_, y_;
  double height_;
  std::string shapes_;
};

/// The path of a mark around 0 0: circle, square, triangle, diamond for 0..3.
const char* mark_path(int form);
/// An SVG element of the page's width with `body` in it.
std::string svg_element(double width, double height, const std::string& title, const std::string& description,
                        const std::string& body);
/// A rectangle with a tooltip; nothing where it has no extent.
std::string svg_rect(double x, double y, double width, double height, std::string_view style,
                     const std::string& tooltip);
enum class Anchor { start, middle, end };
std::string svg_text(double x, double y, Anchor anchor, const std::string& text, std::string_view style = "");

}  // namespace moe::harness
