#include "harness/infer/candidates.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace moe::harness {
namespace {

/// Floors of public quantisers (fixtures/problem/semantics.cpp names them); 448e-10 and 1/512 are floors on
/// the scale, as floors on the amax.
constexpr double kFloors[] = {0, 1e-10, 448e-10, 1e-4, 1.0 / 512};
/// Chains of k's; 0 = all of K. Under block scales a chain ends with its block.
constexpr int kBlockChains[] = {32, 64, 128}, kChains[] = {0, 32, 64, 128, 256, 512};

void canonical_quantiser(const Problem& p, Semantics& s) {
  const QuantScheme& quant = p.quant;
  if (quant.kind == QuantKind::tensor_static) {  // the scale is given: no amax, no ratio
    s.amax_floor = 0;
    s.scale_formula = ScaleFormula::divide;
    if (s.quant_formula == QuantFormula::multiply_ratio) s.quant_formula = QuantFormula::multiply_inverse;
  }
  if (!exact_scales(p)) return;
  s.quant_formula = QuantFormula::multiply_inverse;  // x / 2^e = x * 2^-e
  s.scale_formula = ScaleFormula::divide;  // amax / 448 passes a power of two where amax * fl(1 / 448) does
}

ScaleOrder canonical_order(const Problem& p, ScaleOrder order) {
  if (exact_scales(p)) return ScaleOrder::product_fma;
  if (p.quant.block()) return order;
  if (order == ScaleOrder::act_weight_fma)
    return ScaleOrder::act_weight_mul_add;  // behind K nothing is added
  return order == ScaleOrder::product_mul_add ? ScaleOrder::product_fma : order;
}

/// An op by itself: fields of stages that it does not have.
void canonical_op(Op op, Semantics& s) {
  const Semantics usual;
  if (op == Op::moe_layer) return;
  if (op != Op::quantize && op != Op::act_quant) {
    s.amax_floor = usual.amax_floor;
    s.scale_formula = usual.scale_formula;
    s.quant_formula = usual.quant_formula;
  }
  if (op != Op::grouped_gemm) {
    s.accumulator = usual.accumulator;
    s.hmma_order = usual.hmma_order;
    s.promote_k = usual.promote_k;
    s.scale_order = usual.scale_order;
  }
  if (op != Op::act_quant) {
    s.exp_form = usual.exp_form;
    s.gate_rounding = usual.gate_rounding;
    s.product_rounding = usual.product_rounding;
  }
  if (op != Op::combine) {
    s.weight_place = usual.weight_place;
    s.combine_fma = usual.combine_fma;
  }
}

/// One dimension of the product: every candidate so far, once with each value.
template <class Values, class Set>
void times(std::vector<Semantics>& all, const Values& values, Set set) {
  std::vector<Semantics> product;
  for (const Semantics& s : all)
    for (const auto value : values) set(product.emplace_back(s), value);
  all = std::move(product);
}

/// A number in which equal Semantics, and only those, are equal.
struct Packed {
  std::uint64_t floor = 0, rest = 0;
  auto operator<=>(const Packed&) const = default;
};
std::uint64_t gemm_bits(const Semantics& s) {
  return std::uint64_t(s.accumulator) | std::uint64_t(s.hmma_order) << 1 | std::uint64_t(s.scale_order) << 2 |
         std::uint64_t(s.promote_k) << 8;
}
std::uint64_t quantiser_bits(const Semantics& s) {
  const float floor = float(s.amax_floor);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &floor, 4);
  return std::uint64_t(bits) << 8 | std::uint64_t(s.scale_formula) | std::uint64_t(s.quant_formula) << 1;
}
std::uint64_t rounding_bits(const Semantics& s) {
  return std::uint64_t(s.gate_rounding) | std::uint64_t(s.product_rounding) << 1 |
         std::uint64_t(s.exp_form) << 2;
}
std::uint64_t place_bits(const Semantics& s) {
  return std::uint64_t(s.weight_place) | std::uint64_t(s.combine_fma) << 2;
}
Packed packed(const Semantics& s) {
  return {quantiser_bits(s), gemm_bits(s) << 8 | rounding_bits(s) << 4 | place_bits(s)};
}

void drop_equals(std::vector<Semantics>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Semantics& a, const Semantics& b) { return packed(a) < packed(b); });
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

std::string_view name(LayerStage stage) {
  constexpr std::string_view names[] = {"quantize", "gemm1", "act_quant", "gemm2", "combine", "grouped_gemm"};
  return names[int(stage)];
}

std::span<const std::string_view> fields_at(LayerStage stage) {
  static constexpr std::array<std::string_view, 6> act{"amax_floor", "scale_formula", "quant_formula",
                                                       "exp",        "gate_rounding", "product_rounding"};
  static constexpr std::array<std::string_view, 5> gemm{"accumulator", "hmma_order", "promote_k",
                                                        "scale_order", "weight_place"};
  static constexpr std::array<std::string_view, 2> combine{"weight_place", "combine_order"};
  switch (stage) {
    case LayerStage::quantize:
      return std::span(act).first(3);
    case LayerStage::act_quant:
      return act;
    case LayerStage::gemm1:
    case LayerStage::grouped_gemm:
      return std::span(gemm).first(4);
    case LayerStage::gemm2:
      return gemm;
    case LayerStage::combine:
      break;
  }
  return combine;
}

bool exact_scales(const Problem& p) {
  return p.quant.scale_format == ScaleFormat::ue8m0 &&
         (p.quant.kind != QuantKind::tensor_static || p.op == Op::grouped_gemm);
}

std::span<const LayerStage> stages_of(Op op) {
  static constexpr std::array all = {LayerStage::quantize, LayerStage::gemm1,   LayerStage::act_quant,
                                     LayerStage::gemm2,    LayerStage::combine, LayerStage::grouped_gemm};
  switch (op) {
    case Op::moe_layer:
      return std::span(all).first(kLayerStages);
    case Op::quantize:
      return std::span(all).subspan(int(LayerStage::quantize), 1);
    case Op::grouped_gemm:
      return std::span(all).subspan(int(LayerStage::grouped_gemm), 1);
    case Op::act_quant:
      return std::span(all).subspan(int(LayerStage::act_quant), 1);
    case Op::combine:
      return std::span(all).subspan(int(LayerStage::combine), 1);
    default:
      return {};
  }
}

Semantics canonical(const Problem& p, Semantics s) {
  canonical_quantiser(p, s);
  if (s.accumulator == Accumulator::wgmma) s.hmma_order = HmmaOrder::contiguous;
  s.scale_order = canonical_order(p, s.scale_order);
  if (p.shape.activation == Activation::relu2) {
    s.gate_rounding = GateRounding::none;
    s.exp_form = ExpForm::recipe;
  }
  if (p.shape.weight_on_input) s.weight_place = WeightPlace::input;
  // fma(w, y, +0) is w * y; without a weight the sum has no product
  if (p.shape.top_k == 1 || s.weight_place != WeightPlace::combine) s.combine_fma = false;
  canonical_op(p.op, s);
  return s;
}

std::vector<Semantics> candidate_semantics(const Problem& p) {
  std::vector<Semantics> all{Semantics{}};
  all.front().preset.clear();
  const bool all_bool[] = {false, true};
  times(all, kFloors, [](Semantics& s, double v) { s.amax_floor = v; });
  times(all, all_bool, [](Semantics& s, bool v) { s.scale_formula = ScaleFormula(v); });
  times(all, std::vector<int>{0, 1, 2}, [](Semantics& s, int v) { s.quant_formula = QuantFormula(v); });
  times(all, all_bool, [](Semantics& s, bool v) { s.gate_rounding = GateRounding(v); });
  times(all, all_bool, [](Semantics& s, bool v) { s.product_rounding = ProductRounding(v); });
  times(all, std::vector<int>{0, 1, 2}, [](Semantics& s, int v) { s.exp_form = ExpForm(v); });
  times(all, std::vector<int>{0, 1}, [](Semantics& s, int v) { s.weight_place = WeightPlace(v); });
  times(all, all_bool, [](Semantics& s, bool v) { s.combine_fma = v; });
  for (Semantics& s : all) s = canonical(p, s);
  drop_equals(all);
  times(all, std::vector<int>{0, 1, 2, 3, 4}, [](Semantics& s, int v) { s.scale_order = ScaleOrder(v); });
  for (Semantics& s : all) s = canonical(p, s);
  drop_equals(all);
  times(all, std::vector<int>{0, 1, 2}, [](Semantics& s, int v) {
    s.accumulator = Accumulator(v > 0);
    s.hmma_order = HmmaOrder(v > 1);
  });
  const std::vector<int> chains = p.quant.block()
                                      ? std::vector<int>(std::begin(kBlockChains), std::end(kBlockChains))
                                      : std::vector<int>(std::begin(kChains), std::end(kChains));
  times(all, chains, [](Semantics& s, int v) { s.promote_k = v; });
  for (Semantics& s : all) s = canonical(p, s);
  drop_equals(all);
  return all;
}

CandidateSpace::CandidateSpace(const Problem& p) : problem(p), all(candidate_semantics(p)) {
  for (const Semantics& s : all) {
    const std::vector<SemanticsField> words = fields_of(s);
    auto& numbers = value.emplace_back();
    for (std::size_t f = 0; f < kFields; ++f) {
      fields[f] = words[f].name;
      const auto found = std::find(values[f].begin(), values[f].end(), words[f].value);
      numbers[f] = std::uint8_t(found - values[f].begin());
      if (found == values[f].end()) values[f].push_back(words[f].value);
    }
  }
}

std::uint64_t stage_key(LayerStage stage, const Semantics& s, bool one_hot) {
  switch (stage) {
    case LayerStage::quantize:
      return quantiser_bits(s);
    case LayerStage::gemm1:
    case LayerStage::grouped_gemm:
      return one_hot ? 0 : gemm_bits(s);
    case LayerStage::act_quant:
      return quantiser_bits(s) << 4 | rounding_bits(s);
    case LayerStage::gemm2:
      return (one_hot ? 0 : gemm_bits(s) << 1) | std::uint64_t(s.weight_place == WeightPlace::gemm2);
    case LayerStage::combine:
      return place_bits(s);
  }
  return 0;
}

std::vector<std::string> presets_like(const Problem& p, const Semantics& s) {
  std::vector<std::string> names;
  Semantics but_for_exp = s;
  but_for_exp.exp_form = ExpForm::recipe;
  for (const std::string_view preset : semantics_presets())
    if (packed(canonical(p, semantics_preset(preset, p.quant))) == packed(but_for_exp))
      names.emplace_back(preset);
  return names;
}

}  // namespace moe::harness
