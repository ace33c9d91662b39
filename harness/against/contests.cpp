#include "harness/against/contests.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

using Contest = std::vector<const Scored*>;

/// Rows by one of their keys. Times that are not scored may still form a pair.
std::map<std::string, Contest> by(const std::vector<Scored>& rows, std::string MeasuredRow::*key) {
  std::map<std::string, Contest> groups;
  for (const Scored& s : rows)
    if ((key == &MeasuredRow::twin || s.row->unscored.empty()) && !(s.row->*key).empty())
      groups[s.row->*key].push_back(&s);
  return groups;
}

constexpr double kRuleRows = 32;  // an active expert: below it the rule of thumb swaps

struct Pair {
  double measured = 0, predicted = 0;  // gains
  double rows_per_expert = 0;
};

std::map<std::string, std::vector<Pair>> pairs_of(const std::vector<Scored>& rows) {
  std::map<std::string, std::vector<Pair>> kinds;
  for (const auto& [twin, both] : by(rows, &MeasuredRow::twin)) {
    const Scored* side[2] = {};
    for (const Scored* s : both) side[s->row->swapped] = s;
    if (side[0] == nullptr || side[1] == nullptr) continue;
    const std::size_t space = twin.find(' ', twin.find(' ') + 1);
    const ExpertLoad& load = side[1]->row->load;
    const std::string kind = twin.starts_with("retuned") ? "retuned" : twin.substr(0, space);
    kinds[kind].push_back({side[0]->row->seconds / side[1]->row->seconds - 1,
                           side[0]->predicted / side[1]->predicted - 1,
                           double(load.total()) / std::max(load.active(), 1)});
  }
  return kinds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Says>
double balanced_accuracy(const std::vector<Pair>& pairs, Says&& says) {
  double right[2] = {}, all[2] = {};
  for (const Pair& p : pairs) {
    const bool swap = p.measured > 0;
    ++all[swap];
    right[swap] += says(p) == swap;
  }
  if (all[0] + all[1] == 0) return 0;
  if (all[0] == 0 || all[1] == 0) return (right[0] + right[1]) / (all[0] + all[1]);
  return (right[0] / all[0] + right[1] / all[1]) / 2;
}

Swaps summary(const std::string& name, const std::vector<Pair>& pairs) {
  Swaps s;
  s.name = name;
  s.pairs = pairs.size();
  std::vector<Pair> decided;
  std::vector<double> gains, below;
  for (const Pair& p : pairs) {
    gains.push_back(p.measured);
    if (p.rows_per_expert < kRuleRows) below.push_back(p.measured);
  }
  const double constant = median(gains), n = double(pairs.size());
  const double of_rule = below.empty() ? 0 : median(below);
  for (const Pair& p : pairs) {
    s.mean_gain += p.measured / n;
    s.model_error += std::abs(p.predicted - p.measured) / n;
    s.constant_error += std::abs(constant - p.measured) / n;
    s.rule_error += std::abs((p.rows_per_expert < kRuleRows ? of_rule : 0) - p.measured) / n;
    if (std::abs(p.predicted) <= sim::kGainWidth) continue;
    ++s.decided;
    decided.push_back(p);
    s.decided_right += (p.predicted > 0) == (p.measured > 0);
  }
  s.decided_accuracy = balanced_accuracy(decided, [](const Pair& p) { return p.predicted > 0; });
  s.model_accuracy = balanced_accuracy(pairs, [](const Pair& p) { return p.predicted > 0; });
  s.rule_accuracy = balanced_accuracy(pairs, [](const Pair& p) { return p.rows_per_expert < kRuleRows; });
  return s;
}

}  // namespace

std::optional<Picks> picks_of(const std::vector<Scored>& rows) {
  Picks picks;
  double first = 0, four = 0;
  picks.worst_first = 1;
  for (auto& [name, contest] : by(rows, &MeasuredRow::contest)) {
    if (contest.size() < 2) continue;
    Contest order = contest;
    std::stable_sort(order.begin(), order.end(),
                     [](const Scored* a, const Scored* b) { return a->predicted < b->predicted; });
    const auto slower = [](const Scored* a, const Scored* b) { return a->row->seconds < b->row->seconds; };
    const double best = (*std::min_element(order.begin(), order.end(), slower))->row->seconds;
    const auto end = order.begin() + std::ptrdiff_t(std::min<std::size_t>(order.size(), 4));
    const double share = best / order.front()->row->seconds;
    ++picks.contests;
    first += std::log(share);
    four += std::log(best / (*std::min_element(order.begin(), end, slower))->row->seconds);
    picks.worst_first = std::min(picks.worst_first, share);
  }
  if (picks.contests == 0) return std::nullopt;
  picks.first = std::exp(first / double(picks.contests));
  picks.of_four = std::exp(four / double(picks.contests));
  return picks;
}

std::vector<Swaps> swaps_of(const std::vector<Scored>& rows) {
  std::vector<Swaps> all;
  for (const auto& [name, pairs] : pairs_of(rows)) all.push_back(summary(name, pairs));
  return all;
}

}  // namespace moe::harness
