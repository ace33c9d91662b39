#include <fmt/format.h>

#include <algorithm>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr double kWidth = 440, kNames = 92, kTimes = 118, kRow = 20;
/// Cases with a waterfall of their own.
constexpr std::size_t kMostCases = 6;

std::optional<double> measured_stage(const CaseRecord& r, const std::string& stage) {
  if (!r.measurement) return std::nullopt;
  for (const StageTime& s : r.measurement->stages) {
    if (s.stage != stage || s.seconds.empty()) continue;
    std::vector<double> sorted = s.seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  return std::nullopt;
}

std::string picture(const CaseRecord& r, const std::string& title, const std::string& note) {
  const Prediction& p = *r.prediction;
  const double scale = (kWidth - kNames - kTimes) / std::max(p.seconds, 1e-30);
  std::string body;
  double begin = 0, y = 4;
  for (const Part& part : p.parts) {
    body += svg_text(kNames - 6, y + 14, Anchor::end, part.name);
    body += svg_rect(
        kNames + begin * scale, y + 3, part.seconds * scale, 9, "bar swap_ab",
        fmt::format("{}: predicted {}, held by {}", part.name, seconds_text(part.seconds), name(part.limit)));
    std::string times = fmt::format("{}, {}", seconds_text(part.seconds), name(part.limit));
    if (const auto measured = measured_stage(r, part.name)) {
      body += svg_rect(kNames + begin * scale, y + 13,
                       std::min(*measured * scale, kWidth - kNames - begin * scale), 4, "bar measured",
                       fmt::format("{}: measured {}", part.name, seconds_text(*measured)));
    }
    body += svg_text(kWidth - 4, y + 14, Anchor::end, times);
    begin += part.seconds, y += kRow;
  }
  return svg_element(kWidth, y + 6, title, note, body);
}

NumberTable numbers_of(const CaseRecord& r) {
  NumberTable table{{{"launch"}, {"predicted", true}, {"share", true}, {"held by"}, {"measured", true}}, {}};
  for (const Part& part : r.prediction->parts) {
    const auto measured = measured_stage(r, part.name);
    table.rows.push_back({part.name, seconds_text(part.seconds),
                          percent_text(part.seconds / std::max(r.prediction->seconds, 1e-30)),
                          std::string(name(part.limit)), measured ? seconds_text(*measured) : ""});
  }
  return table;
}

/// Measured ones first, of each the smallest and the largest layer, so that a few show what varies.
std::vector<const CaseRecord*> chosen_cases(const Report& report) {
  std::vector<const CaseRecord*> all, chosen;
  for (const CaseRecord& r : report.cases)
    if (r.prediction && r.prediction->parts.size() > 1) all.push_back(&r);
  std::stable_sort(all.begin(), all.end(), [](const CaseRecord* a, const CaseRecord* b) {
    const bool timed_a = measured_seconds(*a).has_value(), timed_b = measured_seconds(*b).has_value();
    if (timed_a != timed_b) return timed_a;
    return a->trial.problem.shape.tokens < b->trial.problem.shape.tokens;
  });
  if (all.size() <= kMostCases) return all;
  for (std::size_t i = 0; i < kMostCases; ++i) chosen.push_back(all[i * (all.size() - 1) / (kMostCases - 1)]);
  return chosen;
}

}  // namespace

std::vector<Figure> waterfall_charts(const Report& report) {
  std::vector<Figure> figures;
  for (const CaseRecord* r : chosen_cases(report)) {
    Figure f;
    f.title = fmt::format("{}, {} tokens, {}", shape_text(r->trial.problem), r->trial.problem.shape.tokens,
                          choice_text(r->trial.choice));
    const auto measured = measured_seconds(*r);
    const bool staged = r->measurement && !r->measurement->stages.empty();
    f.note =
        fmt::format("Predicted {}{}: {}{}", seconds_text(r->prediction->seconds),
                    measured ? fmt::format(", measured {}", seconds_text(*measured)) : "",
                    r->prediction->reason, staged ? " The thin bar is the stage's measured median." : "");
    f.svg = picture(*r, "Waterfall of " + f.title, f.note);
    f.numbers = numbers_of(*r);
    figures.push_back(std::move(f));
  }
  return figures;
}

}  // namespace moe::harness
