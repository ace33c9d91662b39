#include "harness/waterfall.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/reporters.hpp"
#include "harness/units.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

constexpr int kBar = 36;

std::string heading(const CaseRecord& r) {
  return fmt::format("{}  {}  {}", choice_text(r.trial.choice), seconds_text(r.prediction->seconds),
                     "of which, in order");
}

struct Change {
  std::string name;
  double from = 0, to = 0;
  Limit was = Limit::hbm, is = Limit::hbm;
  double size() const { return std::abs(to - from); }
};

/// Parts of both by name; one that a side does not have takes no time there.
std::vector<Change> changes_of(const Prediction& a, const Prediction& b) {
  std::vector<Change> changes;
  for (const Part& part : a.parts) changes.push_back({part.name, part.seconds, 0, part.limit, part.limit});
  for (const Part& part : b.parts) {
    auto at =
        std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.name == part.name; });
    if (at == changes.end()) at = changes.insert(at, {part.name, 0, 0, part.limit, part.limit});
    at->to = part.seconds, at->is = part.limit;
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& x, const Change& y) { return x.size() > y.size(); });
  return changes;
}

std::string verdict(double gain) {
  if (std::abs(gain) <= sim::kGainWidth)
    return fmt::format("within the {} that a predicted gain is known to: measure",
                       percent_text(sim::kGainWidth));
  return gain > 0 ? "faster, beyond what a predicted gain is known to"
                  : "slower, beyond what a predicted gain is known to";
}

}  // namespace

std::string waterfall(const CaseRecord& record) {
  const Prediction& p = *record.prediction;
  std::string text = heading(record) + "\n";
  double begin = 0;
  for (const Part& part : p.parts) {
    const double end = begin + part.seconds, total = std::max(p.seconds, 1e-30);
    const int from = int(std::lround(kBar * begin / total)), to = int(std::lround(kBar * end / total));
    const std::string bar =
        std::string(std::size_t(from), ' ') + (to > from ? std::string(std::size_t(to - from), '#') : "|");
    text += fmt::format("  {:<14}{:<{}}{:>9}{:>6}  {}\n", part.name, bar, kBar + 1,
                        seconds_text(part.seconds), percent_text(part.seconds / total), name(part.limit));
    begin = end;
  }
  return text + "  " + p.reason + "\n";
}

std::string layout_change(const CaseRecord& record, const CaseRecord& other) {
  const Prediction &a = *record.prediction, &b = *other.prediction;
  std::string text =
      fmt::format("{} instead: {}, {}\n", choice_text(other.trial.choice), seconds_text(b.seconds),
                  verdict(a.seconds / std::max(b.seconds, 1e-30) - 1));
  for (const Change& c : changes_of(a, b)) {
    if (c.size() < 0.005e-6) continue;  // no digit of it would show
    const std::string held = c.was == c.is ? fmt::format("held by {}", name(c.is))
                                           : fmt::format("held by {}, was {}", name(c.is), name(c.was));
    text += fmt::format("  {:<14}{:>10} -> {:<10}{:>+9.2f} us  {}\n", c.name, seconds_text(c.from),
                        seconds_text(c.to), 1e6 * (c.to - c.from), held);
  }
  return text + fmt::format("  tensor pipe {} -> {}, useful FLOP {} -> {}, issue efficiency {} -> {}\n",
                            percent_text(a.tensor_active), percent_text(b.tensor_active),
                            percent_text(a.useful_flop), percent_text(b.useful_flop),
                            percent_text(a.issue_efficiency), percent_text(b.issue_efficiency));
}

std::string why_text(const std::vector<CaseRecord>& records) {
  const CaseRecord& last = records.back();
  std::string text = "\n" + waterfall(last);
  for (const CaseRecord& r : records)
    if (&r != &last) text += "\n" + layout_change(last, r);
  return text;
}

}  // namespace moe::harness
