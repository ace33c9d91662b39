#include "harness/html/token_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

/// The problem without its tokens, and the kernel that answers.
std::string key_of(const CaseRecord& r) {
  Case c{r.trial.problem, {}};
  c.problem.shape.tokens = 0;
  c.choice.kernel = r.trial.choice.kernel;
  return to_line(c);
}

std::string label_of(const CaseRecord& r) {
  const Problem& p = r.trial.problem;
  std::string text = fmt::format("{}, load {}", shape_text(p), to_string(p.routing.load));
  if (p.quant.kind != QuantKind::block128) text += fmt::format(", {}", name(p.quant.kind));
  if (p.data != DataMode::normal) text += fmt::format(", data {}", name(p.data));
  if (r.trial.choice.kernel != "moeproof") text += fmt::format(", kernel {}", r.trial.choice.kernel);
  return text;
}

bool is_better(const LayoutTime& a, const LayoutTime& b) {
  if (a.measured.has_value() != b.measured.has_value()) return a.measured.has_value();
  return a.measured ? *a.measured < *b.measured : a.predicted.value_or(0) < b.predicted.value_or(0);
}

}  // namespace

std::optional<double> measured_seconds(const CaseRecord& r) {
  if (!r.measurement || r.measurement->seconds.empty()) return std::nullopt;
  return r.measurement->median();
}

std::vector<TokenSweep> token_sweeps(const Report& report) {
  std::map<std::string, TokenSweep> sweeps;
  for (const CaseRecord& r : report.cases) {
    const std::int64_t tokens = r.trial.problem.shape.tokens;
    if (tokens <= 0 || !r.prediction || !(r.prediction->seconds > 0)) continue;
    TokenSweep& sweep = sweeps[key_of(r)];
    if (sweep.label.empty()) sweep.label = label_of(r);
    const LayoutTime time{r.prediction->seconds, measured_seconds(r), &r};
    LayoutTime& best = sweep.at[tokens][r.trial.choice.layout];
    if (best.record == nullptr || is_better(time, best)) best = time;
  }
  std::vector<TokenSweep> list;
  for (auto& [key, sweep] : sweeps) list.push_back(std::move(sweep));
  std::stable_sort(list.begin(), list.end(),
                   [](const TokenSweep& a, const TokenSweep& b) { return a.at.size() > b.at.size(); });
  return list;
}

std::optional<double> gain_of(const LayoutTime& baseline, const LayoutTime& own,
                              std::optional<double> LayoutTime::*which) {
  if (!(baseline.*which) || !(own.*which)) return std::nullopt;
  return *(baseline.*which) / *(own.*which);
}

int form_of(Layout layout) { return layout == Layout::swap_ab ? 0 : layout == Layout::normal_mma ? 1 : 2; }

}  // namespace moe::harness
