// Court: the stages of a kernel that declares nothing, each against what it may follow there.
#include <algorithm>

#include "harness/court.hpp"

namespace moe::harness {
namespace {

/// Rows that a candidate is held against before all of them are.
std::vector<std::int64_t> few_of(std::span<const std::int64_t> rows) {
  constexpr std::size_t kFew = 4;
  if (rows.size() <= kFew) return {rows.begin(), rows.end()};
  return {rows[0], rows[rows.size() / 3], rows[2 * rows.size() / 3], rows.back()};
}

WeightPlace other_place(WeightPlace place) {
  return place == WeightPlace::combine ? WeightPlace::gemm2 : WeightPlace::combine;
}

}  // namespace

bool Court::gives(const reference::StageTruth& truth) const {
  return std::all_of(truth.tensors.begin(), truth.tensors.end(), [&](const reference::TensorTruth& t) {
    const Due due = due_of(t);
    const StageFindings f = compare_stage(due.pair);
    return f.shape_error.empty() && f.wrong == 0;
  });
}

std::optional<reference::StageTruth> Court::fits(std::span<const std::int64_t> rows, const TruthOf& truth,
                                                 const Semantics& s, bool look_first) const {
  reference::TruthOptions bits = truth_;
  bits.semantics = &s;
  bits.bits = true;
  bits.bounds = bits.probable = false;
  if (look_first && !gives(truth(few_of(rows), bits))) return std::nullopt;
  reference::StageTruth due = truth(rows, bits);
  if (!gives(due)) return std::nullopt;
  return due;
}

const Semantics* Court::fitting(JudgedStage stage, const StageCandidates& candidates,
                                std::span<const std::int64_t> rows, const TruthOf& truth,
                                std::optional<reference::StageTruth>& due) const {
  for (const auto* list : {&candidates.likely, &candidates.others})
    for (const Semantics& s : *list) {
      if (stage == JudgedStage::combine && place_ && s.weight_place != *place_) continue;
      due = fits(rows, truth, s, list == &candidates.others);
      if (due) return &s;
    }
  return nullptr;
}

/// One element, or one in ten thousand.
std::int64_t few_misses(std::int64_t elements) { return std::max<std::int64_t>(1, elements / 10000); }

/// An activation made of another exp than all candidates' (of tanh, say) gives their codes but for one in
/// some ten thousand: probes of any size may well have none of those. So a stage that holds an exp is no
/// known one where few elements differ, each by one step, and not wrong: bounds judge it. Sums and quantisers
/// without an exp are told apart by probes that are made for it.
std::optional<StageJudgement> Court::near_miss(JudgedStage stage, const StageCandidates& candidates,
                                               std::span<const std::int64_t> rows,
                                               const TruthOf& truth) const {
  if (stage != JudgedStage::act_quant || j_.problem().shape.activation == Activation::relu2)
    return std::nullopt;
  reference::TruthOptions bits = truth_;
  bits.bits = true;
  bits.bounds = bits.probable = false;
  std::optional<StageJudgement> nearest;
  for (const Semantics& s : candidates.likely) {
    bits.semantics = &s;
    StageJudgement how{stage, std::nullopt, false};
    bool small = true;
    for (const reference::TensorTruth& t : truth(rows, bits).tensors) {
      const Due due = due_of(t);
      const StageFindings f = compare_stage(due.pair);
      how.missed += f.wrong, how.elements += f.checked;
      small =
          small && f.shape_error.empty() &&
          std::all_of(f.elements.begin(), f.elements.end(), [](const WrongElement& e) { return e.ulp == 1; });
    }
    if (small && how.missed <= few_misses(how.elements) && (!nearest || how.missed < nearest->missed))
      nearest = how;
  }
  return nearest;
}

/// gemm2 shows where the routing weight multiplies (unless the weights tell nothing): combine may not apply
/// it again, nor leave it out.
void Court::note_weight(std::span<const std::int64_t> rows, const TruthOf& truth, const Semantics* fits_it) {
  if (j_.problem().shape.weight_on_input || fits_it == nullptr) return;
  Semantics other = *fits_it;
  other.weight_place = other_place(other.weight_place);
  if (fits(rows, truth, other, true)) return;
  set_place(fits_it->weight_place);
}

void Court::set_place(WeightPlace place) {
  place_ = place;
  truth_.weight_in_gemm2 = place == WeightPlace::gemm2;
}

/// gemm2 of a kernel that no candidate gives: the weight multiplies where what came lies within what is due,
/// as the plan has it where that is both places or neither. One answer (`one`) is that of unweighted rows;
/// weighted ones have a rounding more, and their sum too.
reference::StageTruth Court::gemm2_truth(std::span<const std::int64_t> rows, const TruthOf& truth, bool one) {
  reference::StageTruth due = truth(rows, truth_);
  if (!j_.problem().shape.weight_on_input && !gives(due)) {
    const WeightPlace planned = truth_.weight_in_gemm2 ? WeightPlace::gemm2 : WeightPlace::combine;
    const bool only = only_one_answer_;
    set_place(other_place(planned));
    one_answer(one && !truth_.weight_in_gemm2);
    if (reference::StageTruth other = truth(rows, truth_); gives(other)) return other;
    set_place(planned);
    only_one_answer_ = only;
    one_answer(one && !truth_.weight_in_gemm2);
    return due;
  }
  set_place(truth_.weight_in_gemm2 ? WeightPlace::gemm2 : WeightPlace::combine);
  return due;
}

void Court::judge(JudgedStage stage, std::span<const std::int64_t> rows, const TruthOf& truth) {
  if (j_.plan.semantics) return add(truth(rows, truth_));
  const bool weighted =
      truth_.weight_in_gemm2 && (stage == JudgedStage::gemm2 || stage == JudgedStage::combine);
  const bool one = !weighted && same_bits_for_all(j_.problem(), j_.inputs, stage);
  const auto known = j_.plan.stages.find(stage);
  const StageCandidates none;
  const StageCandidates& candidates = known != j_.plan.stages.end() ? known->second : none;
  const bool any = !candidates.likely.empty() && !rows.empty();
  use_bits(any ? &candidates.likely.front() : nullptr);
  one_answer_ = false;
  std::optional<reference::StageTruth> due;
  const Semantics* fit = any ? fitting(stage, candidates, rows, truth, due) : nullptr;
  if (stage == JudgedStage::gemm2) note_weight(rows, truth, fit);
  const bool must_fit = any && candidates.must_fit && fit == nullptr && !one;
  const auto near = must_fit ? near_miss(stage, candidates, rows, truth) : std::nullopt;
  if (any && (fit != nullptr || !one)) {
    const bool likely =
        fit >= candidates.likely.data() && fit < candidates.likely.data() + candidates.likely.size();
    stages_.push_back({stage, fit != nullptr ? std::optional(*fit) : std::nullopt, likely});
    if (near) stages_.back() = *near;
  }
  if (fit == nullptr && (!must_fit || near)) {
    one_answer(one);
    if (stage == JudgedStage::gemm2) due = gemm2_truth(rows, truth, one);
  } else {
    only_one_answer_ = false;
    use_bits(fit != nullptr ? fit : &candidates.likely.front());
  }
  add(due ? *due : truth(rows, truth_));
}

/// With its roundings known a layer of single products is known to some fp32 roundings; without, each may be
/// there or not, and their hull would hide a factor that is cut. So all are tried, on a few tokens first, and
/// one has to hold every element.
reference::StageTruth Court::factors_truth(std::span<const std::int64_t> tokens, const TruthOf& bounds) {
  reference::TruthOptions options = truth_;
  Semantics roundings;
  options.roundings = &roundings;
  reference::StageTruth due;
  for (int kind = 0; kind < 32; ++kind) {
    roundings.gate_rounding = kind & 1 ? GateRounding::bf16 : GateRounding::none;
    roundings.product_rounding = kind & 2 ? ProductRounding::bf16 : ProductRounding::none;
    roundings.weight_place = kind & 4 ? WeightPlace::gemm2 : WeightPlace::combine;
    options.wide_gemm1 = kind & 8, options.wide_gemm2 = kind & 16;
    if (!gives(bounds(few_of(tokens), options))) continue;
    due = bounds(tokens, options);
    if (gives(due)) return due;
  }
  roundings = Semantics();
  options.wide_gemm1 = options.wide_gemm2 = false;
  return bounds(tokens, options);
}

void Court::judge_layer(std::span<const std::int64_t> tokens,
                        const std::function<reference::StageTruth(const Semantics&)>& bits,
                        const TruthOf& bounds) {
  if (to_the_bit()) return add(bits(*truth_.semantics));
  const bool one = !j_.plan.semantics && same_bits_for_whole_layer(j_.problem(), j_.inputs);
  const std::vector<Semantics>& likely = j_.plan.layer.likely;
  if (!j_.plan.semantics && !likely.empty()) {
    StageJudgement how{JudgedStage::combine, std::nullopt, true};
    reference::StageTruth due;
    use_bits(&likely.front());
    for (std::size_t i = 0; i < likely.size() && !how.fits; ++i)
      if (due = bits(likely[i]); gives(due)) how.fits = likely[i];
    if (how.fits || !one) stages_.push_back(how);
    if (how.fits || (!one && j_.plan.layer.must_fit)) return add(how.fits ? due : bits(likely.front()));
  }
  if (!j_.plan.semantics) one_answer(one);
  if (one) return add(bits(*truth_.semantics));
  carried_ = true;
  truth_.probable = !j_.plan.hard_bounds && !truth_.sparse_weights;
  v_.judged_by = "interval carried through the layer";
  add(truth_.sparse_weights ? factors_truth(tokens, bounds) : bounds(tokens, truth_));
}

}  // namespace moe::harness
