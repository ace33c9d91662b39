#include "harness/upstream/explain_bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/infer/infer.hpp"
#include "harness/judge.hpp"

namespace moe::harness {
namespace {

/// What looking for a preset may cost, multiply-adds a preset: a wrong one shows in few rows.
constexpr double kPresetBudget = 1e8;
/// Candidates that an inference left and that are tried.
constexpr std::size_t kMostTried = 48;

bool gives_the_bits(const OpenTrial& t, const TensorSet& inputs, const Semantics& s, const RunPlan& plan) {
  JudgePlan how;
  how.semantics = s;
  how.budget = std::min(plan.judge_budget, kPresetBudget);
  how.threads = plan.threads;
  const Verdict v = judge(t.record.trial, inputs, t.outputs, how);
  return v.correctness == Correctness::passed && v.judged_by == "bits";
}

/// Those of `candidates` that give the bits of a trial.
std::vector<Semantics> fitting(const std::vector<Semantics>& candidates, const OpenTrial& trial,
                               const TensorSet& inputs, const RunPlan& plan) {
  std::vector<Semantics> fit;
  for (const Semantics& s : candidates)
    if (gives_the_bits(trial, inputs, s, plan)) fit.push_back(s);
  return fit;
}

std::vector<SemanticsField> changed(const Semantics& before, const Semantics& after) {
  const std::vector<SemanticsField> from = fields_of(before), to = fields_of(after);
  std::vector<SemanticsField> fields;
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i)
    if (from[i] != to[i]) fields.push_back({from[i].name, from[i].value + " -> " + to[i].value});
  return fields;
}

/// The pair of possible roundings that differ least.
std::pair<const Semantics*, const Semantics*> nearest(const KnownRoundings& before,
                                                      const KnownRoundings& after) {
  std::pair<const Semantics*, const Semantics*> best{};
  std::size_t least = 0;
  for (const Semantics& a : before.possible)
    for (const Semantics& b : after.possible) {
      const std::size_t n = changed(a, b).size();
      if (best.first != nullptr && n >= least) continue;
      best = {&a, &b};
      least = n;
    }
  return best;
}

/// Roundings that leave exp open let two right kernels differ, first in what they quantise behind it.
bool differs_by_exp(const std::vector<StageDifference>& stages, const Semantics& both) {
  const auto first =
      std::find_if(stages.begin(), stages.end(), [](const StageDifference& d) { return d.different > 0; });
  return both.exp_form != ExpForm::recipe && first != stages.end() && first->stage.starts_with("act_");
}

std::string side_text(const char* side, const Semantics* semantics, const std::string& origin) {
  return semantics != nullptr ? fmt::format("{} rounds as {} ({})", side, semantics->preset, origin)
                              : fmt::format("the bits of {} are those of no known Semantics", side);
}

}  // namespace

std::string_view name(Bits bits) {
  static constexpr std::array<std::string_view, 4> words = {"same", "explained", "unexplained",
                                                            "not_compared"};
  return words[std::size_t(bits)];
}

KnownRoundings roundings_of(const OpenTrial& trial, const TensorSet& inputs, const RunPlan& plan) {
  if (trial.ground.declared) return {{*trial.ground.declared}, "declared"};
  const Inference* inferred = trial.ground.inferred;
  if (inferred != nullptr && inferred->refusal.empty()) {
    // Probes see more than one case does: a preset that they ruled out explains nothing.
    if (!inferred->known() || inferred->left.size() > kMostTried) return {};
    return {fitting(inferred->left, trial, inputs, plan), "inferred"};
  }
  std::vector<Semantics> presets;
  for (const std::string_view preset : semantics_presets())
    presets.push_back(semantics_preset(preset, trial.record.trial.problem.quant));
  return {fitting(presets, trial, inputs, plan), "a preset that gives its bits here"};
}

std::string rounding_changes(const Semantics& before, const Semantics& after) {
  std::string text;
  for (const SemanticsField& f : changed(before, after))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", f.name, f.value);
  return text;
}

BitsVerdict explain_bits(const std::vector<StageDifference>& stages, const KnownRoundings& before,
                         const KnownRoundings& after) {
  const StageDifference all = all_stages(stages);
  if (all.elements == 0) return {Bits::not_compared, "the two gave no tensor in common"};
  if (all.different == 0) return {Bits::same, ""};
  if (before.possible.empty() && after.possible.empty())
    return {Bits::unexplained,
            "both are within the bounds of every right kernel, the bits of neither are those of a known "
            "Semantics"};
  auto [from, to] = nearest(before, after);
  if (from == nullptr && !before.possible.empty()) from = &before.possible.front();
  if (to == nullptr && !after.possible.empty()) to = &after.possible.front();
  const std::string both =
      side_text("before", from, before.origin) + ", " + side_text("after", to, after.origin);
  if (from == nullptr || to == nullptr) return {Bits::unexplained, both};
  const std::string changes = rounding_changes(*from, *to);
  if (changes.empty() && differs_by_exp(stages, *from))
    return {Bits::explained, both + ": exp is known up to an error"};
  if (changes.empty()) return {Bits::unexplained, both + ": the same roundings, and yet other bits"};
  return {Bits::explained, both + ": " + changes};
}

}  // namespace moe::harness
