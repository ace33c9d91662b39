#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr double kWidth = 440, kLeft = 58, kRight = 14, kTop = 8, kMostHeight = 420;

struct Grid {
  std::string stage;
  std::vector<int> experts;  // rows; {-1} where the stage knows no experts
  int columns = 1;
  std::vector<const BlockVerdict*> wrong;

  double cell_height() const { return std::clamp(kMostHeight / double(experts.size()), 1.5, 22.0); }
  double cell_width() const { return (kWidth - kLeft - kRight) / columns; }
  /// Row of an expert; -1 where it is none of them.
  int row_of(int expert) const {
    const auto found = std::find(experts.begin(), experts.end(), expert);
    return found == experts.end() ? -1 : int(found - experts.begin());
  }
};

Grid grid_of(const CaseRecord& r) {
  const Verdict& v = *r.verdict;
  const BlockSums sums = sums_of(r);
  Grid g{v.worst->stage, {}, 1, {}};
  for (const BlockVerdict& b : v.blocks) {
    if (b.stage != g.stage || b.wrong == 0) continue;
    g.wrong.push_back(&b);
    g.columns = std::max(g.columns, b.column_block + 1);
  }
  for (const StageSum& s : sums.stages)
    if (s.stage == g.stage) g.columns = std::max(g.columns, s.column_blocks);
  const bool by_expert =
      std::any_of(g.wrong.begin(), g.wrong.end(), [](const BlockVerdict* b) { return b->expert >= 0; });
  if (by_expert)
    for (const ExpertSum& e : sums.experts) g.experts.push_back(e.expert);
  for (const BlockVerdict* b : g.wrong)
    if (g.row_of(b->expert) < 0) g.experts.push_back(b->expert);
  std::sort(g.experts.begin(), g.experts.end());
  return g;
}

std::string place_text(const Place& p) {
  std::string text = fmt::format("{}{} row {} column {}", p.stage,
                                 p.expert >= 0 ? fmt::format(" expert {}", p.expert) : "", p.row, p.column);
  if (p.tile_row >= 0) text += fmt::format(" (tile {})", p.tile_row);
  text += std::isnan(p.got) ? fmt::format(": got NaN, want {:.6g}", p.want)
                            : fmt::format(": got {:.6g}, want {:.6g}", p.got, p.want);
  return text + (p.bound > 0 ? fmt::format(", bound {:.3g}", p.bound) : fmt::format(", {} ulp off", p.ulp));
}

std::string frame(const Grid& g, double height) {
  std::string out =
      fmt::format("<rect class=\"right\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", kLeft,
                  kTop, kWidth - kLeft - kRight, height);
  const std::size_t every =
      std::max<std::size_t>(1, std::size_t(14 / g.cell_height()) + (g.cell_height() < 14));
  for (std::size_t i = 0; i < g.experts.size(); i += every)
    out += svg_text(kLeft - 5, kTop + (double(i) + 0.5) * g.cell_height() + 4, Anchor::end,
                    g.experts[i] < 0 ? "all" : std::to_string(g.experts[i]));
  const int step = std::max(1, int(30 / g.cell_width()) + (g.cell_width() < 30));
  for (int c = 0; c < g.columns; c += step)
    out +=
        svg_text(kLeft + (c + 0.5) * g.cell_width(), kTop + height + 15, Anchor::middle, std::to_string(c));
  out += svg_text((kLeft + kWidth - kRight) / 2, kTop + height + 34, Anchor::middle, "block of 128 columns",
                  "label");
  return out + fmt::format(
                   "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(11 {:.1f}) "
                   "rotate(-90)\">expert</text>\n",
                   kTop + height / 2);
}

/// Shade 1..4 by the share of wrong outputs.
std::string cells(const Grid& g) {
  std::string out;
  for (const BlockVerdict* b : g.wrong) {
    const double share = double(b->wrong) / double(std::max<std::int64_t>(b->checked, 1));
    const int shade = share > 0.5 ? 4 : share > 0.1 ? 3 : share > 0.01 ? 2 : 1;
    out += svg_rect(
        kLeft + b->column_block * g.cell_width(), kTop + g.row_of(b->expert) * g.cell_height(),
        g.cell_width(), g.cell_height(), fmt::format("wrong{}", shade),
        fmt::format("{}block {}: {} of {} wrong", b->expert >= 0 ? fmt::format("expert {}, ", b->expert) : "",
                    b->column_block, count_text(b->wrong), count_text(b->checked)));
  }
  return out;
}

std::string worst_ring(const Grid& g, const Place& p) {
  const int row = g.row_of(p.expert);
  if (row < 0 || p.tile_column < 0 || p.tile_column >= g.columns) return {};
  const double inside = std::clamp(double(p.column % 128) / 128, 0.0, 1.0);
  return fmt::format(
      "<circle class=\"worst\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\"><title>worst: {}</title></circle>\n",
      std::clamp(kLeft + (p.tile_column + inside) * g.cell_width(), kLeft + 8, kWidth - kRight - 8),
      kTop + (row + 0.5) * g.cell_height(), escape_markup(place_text(p)));
}

Figure map_of(const CaseRecord& r) {
  const Grid g = grid_of(r);
  const Place& worst = *r.verdict->worst;
  const double height = g.cell_height() * double(g.experts.size());
  Figure f;
  f.title = fmt::format("{}, {} tokens, {}: {}", shape_text(r.trial.problem), r.trial.problem.shape.tokens,
                        choice_text(r.trial.choice), g.stage);
  f.note = fmt::format(
      "Worst (ringed): {}.{} Darker: a larger share is wrong.", place_text(worst),
      r.verdict->fault_class.empty() ? "" : fmt::format(" Looks like {}.", r.verdict->fault_class));
  f.svg = svg_element(kWidth, kTop + height + 42, "Wrong outputs of " + f.title, f.note,
                      frame(g, height) + cells(g) + worst_ring(g, worst));
  f.numbers.heads = {{"expert", true}, {"block", true}, {"wrong", true}, {"of", true}};
  for (const BlockVerdict* b : g.wrong)
    f.numbers.rows.push_back({b->expert < 0 ? "" : std::to_string(b->expert), std::to_string(b->column_block),
                              count_text(b->wrong), count_text(b->checked)});
  if (!r.verdict->replay.empty())
    f.svg += fmt::format("<p class=\"replay\"><code>{}</code></p>", escape_markup(r.verdict->replay));
  return f;
}

}  // namespace

std::vector<Figure> fault_maps(const Report& report) {
  std::vector<Figure> figures;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict || r.verdict->correctness == Correctness::passed || !r.verdict->worst) continue;
    if (figures.size() == kMostFigures) break;
    figures.push_back(map_of(r));
  }
  return figures;
}

}  // namespace moe::harness
