#include <fmt/format.h>

#include <algorithm>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

std::string ratio_range(int bin) {
  const auto edge = [](int n) {
    return n < 0 ? fmt::format("1/{:.0f}", std::exp2(-n)) : fmt::format("{:.0f}", std::exp2(n));
  };
  if (bin == kLeastRatio) return "below " + edge(bin + 1);
  if (bin == kMostRatio) return edge(bin) + " and more";
  return edge(bin) + " to " + edge(bin + 1);
}

/// Blocks by stage and bin, over all cases.
std::map<std::string, std::map<int, std::int64_t>> bins_of(const Report& report) {
  std::map<std::string, std::map<int, std::int64_t>> bins;
  for (const CaseRecord& r : report.cases)
    for (const StageSum& s : sums_of(r).stages)
      for (const auto& [bin, blocks] : s.by_ratio) bins[s.stage][bin] += blocks;
  return bins;
}

}  // namespace

std::vector<Figure> ratio_charts(const Report& report) {
  std::vector<Figure> figures;
  for (const auto& [stage, bins] : bins_of(report)) {
    std::int64_t most = 1, all = 0, outside = 0;
    for (const auto& [bin, blocks] : bins)
      most = std::max(most, blocks), all += blocks, outside += bin >= 0 ? blocks : 0;
    const int least = std::min(bins.begin()->first, -4), last = std::max(bins.rbegin()->first + 1, 2);
    Plot plot({AxisKind::log_two, double(least), double(last), "largest error / bound in a block"},
              {AxisKind::linear, 0, double(most) * 1.08, "blocks (an expert x 128 columns)"}, 260);
    Figure f;
    f.title = stage;
    f.note = fmt::format("{} blocks judged by bounds, {} with an error of at least its bound.",
                         count_text(all), count_text(outside));
    f.numbers.heads = {{"error / bound"}, {"blocks", true}};
    for (const auto& [bin, blocks] : bins) {
      plot.bar(bin + 0.06, bin + 0.94, 0, double(blocks), bin >= 0 ? "bar wrong" : "bar swap_ab",
               fmt::format("{}: {} blocks", ratio_range(bin), count_text(blocks)));
      f.numbers.rows.push_back({ratio_range(bin), count_text(blocks)});
    }
    plot.line({{0, 0}, {0, double(most) * 1.08}}, "same");
    f.svg = plot.svg("Errors over bounds of " + stage, f.note);
    figures.push_back(std::move(f));
  }
  return figures;
}

}  // namespace moe::harness
