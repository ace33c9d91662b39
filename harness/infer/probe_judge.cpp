#include "harness/infer/probe_judge.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "fixtures/problem/number_formats.hpp"
#include "harness/due_outputs.hpp"

namespace moe::harness {
namespace {

bool only_out(const TensorSet& outputs) { return outputs.all().size() == 1 && outputs.has("out"); }

Verdict judge_once(const Probe& probe, const TensorSet& outputs, JudgePlan plan, bool weight_in_gemm2) {
  plan.weight_in_gemm2 = weight_in_gemm2;
  return judge(probe.trial, probe.inputs, outputs, plan);
}

/// GEMM 1 of the probe "rounding" has one answer: sums of two products are exact, and so are the scales.
bool sums_are_exact(const Probe& probe, const TensorSet& outputs) {
  if (probe.name != "rounding" || only_out(outputs)) return false;
  const Tensor* scale = outputs.find("x_scale");
  if (scale == nullptr || scale->dtype() != DType::f32) return probe.trial.problem.op == Op::grouped_gemm;
  const auto scales = scale->as<float>();
  return std::all_of(scales.begin(), scales.end(), [](float s) { return (float_bits(s) & 0x7FFFFFu) == 0; });
}

void name_a_cut(Verdict& v) {
  const bool cut = v.worst && v.worst->ulp == 1 && std::abs(v.worst->got) < std::abs(v.worst->want);
  if (!cut) return;
  v.reason = "results are cut to bf16, where every right kernel rounds them to the nearest: " + v.reason;
  v.fault_class = "results that are cut to bf16, not rounded";
}

}  // namespace

JudgedStage judged_stage(LayerStage stage) {
  return stage == LayerStage::grouped_gemm ? JudgedStage::gemm1 : JudgedStage(int(stage));
}

std::vector<Semantics> distinct_at(LayerStage stage, const std::vector<Semantics>& all) {
  std::vector<Semantics> some;
  std::set<std::uint64_t> seen;
  for (const Semantics& s : all)
    if (seen.insert(stage_key(stage, s)).second) some.push_back(s);
  return some;
}

std::optional<ProbeFailure> judge_probe(const Probe& probe, const device::RunResult& result,
                                        const std::vector<Semantics>& left, bool explained, int threads) {
  if (!result.reports.empty()) {
    Verdict v;
    v.correctness = Correctness::failed;
    v.reason = result.reports.front();
    return ProbeFailure{probe.name, std::move(v)};
  }
  const Problem& p = probe.trial.problem;
  const bool whole = p.op == Op::moe_layer && only_out(result.outputs);
  if (explained && (whole || first_misfit(due_outputs(p), result.outputs).empty())) return std::nullopt;
  JudgePlan plan;
  plan.threads = threads;
  plan.budget = 1e15;
  plan.hard_bounds = probe.name != "ordinary";
  for (const LayerStage stage : stages_of(p.op))
    plan.stages[judged_stage(stage)].likely = distinct_at(stage, left);
  const bool exact = sums_are_exact(probe, result.outputs);
  if (exact) plan.stages[JudgedStage::gemm1].must_fit = true;
  const auto in_gemm2 = [](const Semantics& s) { return s.weight_place == WeightPlace::gemm2; };
  const bool weighted = !left.empty() && std::all_of(left.begin(), left.end(), in_gemm2);
  // Of a row of zeros a quantiser without a floor makes 0 / 0, as some public ones do: any number is right.
  if (probe.name.starts_with("tiny") && first_misfit(due_outputs(p), result.outputs).empty())
    return std::nullopt;
  Verdict v = judge_once(probe, result.outputs, plan, weighted);
  const bool either = !weighted && std::any_of(left.begin(), left.end(), in_gemm2);
  if (v.correctness == Correctness::failed && either)  // nothing told yet where the weight multiplies
    if (judge_once(probe, result.outputs, plan, true).correctness != Correctness::failed) return std::nullopt;
  if (v.correctness != Correctness::failed) return std::nullopt;
  if (exact) name_a_cut(v);
  return ProbeFailure{probe.name, std::move(v)};
}

}  // namespace moe::harness
