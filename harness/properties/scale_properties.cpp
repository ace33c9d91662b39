// What does a power of two, or one changed scale, do? Exactly what the formula says.
#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/weights.hpp"
#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

std::string down_scale(Subject& s) {
  TensorSet inputs = s.inputs();
  const bool layer = s.op() == Op::moe_layer;
  for (const char* name : {layer ? "w2_scale" : "w_scale", layer ? "w2_bias" : "w_bias"})
    if (inputs.has(name)) scale_all(inputs, name, 2);
  Rule rule;
  rule.times = {{"gemm2", 2.0}, {"out", 2.0}, {"c", 2.0}};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

/// Doubles rows [I, 2I) of w13's scales and biases.
void double_up_half(const Subject& s, TensorSet& inputs) {
  const std::int64_t inner = s.shape().local_intermediate(), experts = s.shape().local_experts();
  const bool block = s.problem().quant.block();
  for (const char* name : {"w13_scale", "w13_bias"}) {
    if (!inputs.has(name)) continue;
    Tensor& t = own(inputs, name);
    const bool blocks = block && t.shape().size() == 3;
    const std::int64_t each = t.size() / experts, half = blocks ? inner / kScaleBlock * t.dim(2) : inner;
    for (std::int64_t e = 0; e < experts; ++e) scale_values(t, e * each + half, each - half, 2);
  }
}

/// No scale of a row that holds something may stand at its floor, where it does not grow with the row. The
/// highest in use: vLLM's per token, 1 / (448 * 512).
void require_scales_above_floor(const TensorSet& outputs) {
  const Tensor *codes = outputs.find("act_codes"), *scales = outputs.find("act_scale");
  if (codes == nullptr || scales == nullptr || codes->empty() || scales->size() == 0) return;
  const std::int64_t rows = codes->dim(0), columns = codes->size() / rows, each = scales->size() / rows;
  for (std::int64_t row = 0; row < rows && each > 0; ++row) {
    const auto values = codes->as<std::uint8_t>().subspan(std::size_t(row * columns), std::size_t(columns));
    if (std::all_of(values.begin(), values.end(), [](std::uint8_t c) { return (c & 0x7F) == 0; })) continue;
    for (const float scale : scales->as<float>().subspan(std::size_t(row * each), std::size_t(each)))
      if (scale <= 1.0f / (448 * 512)) throw NotApplicable("a scale stands at its floor");
  }
}

std::string up_scale(Subject& s) {
  require_scales_above_floor(s.outputs());
  TensorSet inputs = s.inputs();
  double_up_half(s, inputs);
  if (inputs.has("w2_bias")) scale_all(inputs, "w2_bias", 2);
  Rule rule;
  rule.tensors = {"x_codes", "x_scale", "act_codes", "gemm2", "out"};
  rule.times = {{"gemm2", 2.0}, {"out", 2.0}};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

std::string input_against_scale(Subject& s) {
  TensorSet inputs = s.inputs();
  scale_bf16(own(inputs, "hidden"), 2);
  scale_all(inputs, "w13_scale", 0.5f);
  if (inputs.has("a1_scale")) scale_all(inputs, "a1_scale", 2);
  Rule rule;
  rule.tensors = {"x_codes", "gemm1", "act_codes", "act_scale", "gemm2", "out"};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

std::string routing_weights(Subject& s) {
  TensorSet inputs = s.inputs();
  scale_all(inputs, "topk_weights", 2);
  Rule rule;
  rule.tensors = {"gemm1", "act_codes", "out"};
  rule.times = {{"out", 2.0}};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

std::string linear_in_weights(Subject& s) {
  TensorSet quarter = s.inputs(), sum = s.inputs();
  scale_all(quarter, "topk_weights", 0.25f);
  scale_all(sum, "topk_weights", 1.25f);
  const TensorSet part = s.run(quarter), all = s.run(sum);
  const CombineBound bound(s, sum, all);
  const Tensor &a = s.outputs().at("out"), &b = part.at("out"), &c = all.at("out");
  for (std::int64_t i = 0; i < c.size(); ++i) {
    const std::int64_t row = i / c.dim(1), column = i % c.dim(1);
    const double due = value_at(a, i) + value_at(b, i), is = value_at(c, i);
    const double width = bound(row, column, is, value_at(a, i)) + bf16_half_ulp(value_at(b, i)) +
                         bound.magnitude(row, column) * 0x1p-23;  // 1.25 w is rounded
    if (std::string found = outside(s, "out", row, column, {is, due, width}); !found.empty()) return found;
  }
  return {};
}

std::string tiny_scales(Subject& s) {
  const bool layer = s.op() == Op::moe_layer;
  int expert = 0;
  if (layer) {
    expert = first_used_expert(s);
  } else {
    const auto rows = owned_rows(s.problem(), s.inputs());
    if (rows.empty() || rows.front().expert < 0) throw NotApplicable("no group owns the first row");
    expert = rows.front().expert;
  }
  for (const float tiny : {1e-23f, 1e-38f}) {
    for (const char* name : {"w13_scale", "w2_scale", "w_scale"}) {
      if (!s.inputs().has(name)) continue;
      TensorSet inputs = s.inputs();
      Tensor& t = own(inputs, name);
      const std::int64_t each = t.size() / t.dim(0);
      const auto values = t.as<float>().subspan(std::size_t(expert * each), std::size_t(each));
      std::fill(values.begin(), values.end(), tiny);
      if (std::string found = not_finite(s, inputs, s.run(inputs)); !found.empty())
        return fmt::format("{} of {}: {}", name, tiny, found);
    }
  }
  return {};
}

/// One element of c: its row, expert and column.
struct GemmPlace {
  std::int64_t row = 0, column = 0;
  std::int32_t expert = 0;
};

/// Elements that `reached` says are doubled (factor 2), changed (0: anything) or the same (1).
template <class Factor>
std::string reached_only(Subject& s, const TensorSet& got, Factor factor) {
  const Tensor &a = got.at("c"), &b = s.outputs().at("c");
  const std::int64_t columns = a.shape().back();
  std::int64_t changed = 0, free = 0;
  for (const OwnedRow& r : owned_rows(s.problem(), s.inputs())) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t i = r.row * columns + column;
      const double is = value_at(a, i), was = value_at(b, i);
      const int times = factor(GemmPlace{r.row, column, r.expert});
      if (times == 0) {
        ++free, changed += is != was;
        continue;
      }
      if (std::string found = outside(s, "c", r.row, column, {is, was * times, 0}); !found.empty())
        return found;
    }
  }
  return free > 0 && changed == 0 ? "a doubled scale changes none of the elements that it covers" : "";
}

/// A weight scale in the middle of the expert's.
std::string weight_scale_impulse(Subject& s, std::int32_t expert) {
  TensorSet inputs = s.inputs();
  Tensor& t = own(inputs, "w_scale");
  const bool block = s.problem().quant.block();
  const std::int64_t each = t.size() / t.dim(0), at = each / 2, one_k = block ? t.dim(2) : 1;
  scale_values(t, expert * each + at, 1, 2);
  const bool all_of_k = !block || t.dim(2) == 1, tensor = s.problem().quant.tensor();
  const TensorSet got = s.run(inputs);
  return reached_only(s, got, [&](const GemmPlace& p) {
    const std::int64_t unit = block ? kScaleBlock : 1;
    const bool reached = p.expert == expert && (tensor || p.column / unit == at / one_k);
    return !reached ? 1 : all_of_k ? 2 : 0;
  });
}

/// The activation scale of one owned row (the last block of k), or of all.
std::string row_scale_impulse(Subject& s, std::int64_t act_row, std::int64_t out_row) {
  TensorSet inputs = s.inputs();
  Tensor& t = own(inputs, "a_scale");
  const QuantScheme& quant = s.problem().quant;
  const bool mn_major = quant.block() && quant.scale_layout == ScaleLayout::mn_major;
  const std::int64_t blocks = quant.block() ? inputs.at("a_codes").shape().back() / kScaleBlock : 1;
  const std::int64_t at = quant.tensor() ? 0
                          : mn_major     ? (blocks - 1) * t.shape().back() + act_row
                                         : act_row * blocks + blocks - 1;
  scale_values(t, at, 1, 2);
  const TensorSet got = s.run(inputs);
  return reached_only(s, got, [&](const GemmPlace& p) {
    if (!quant.tensor() && p.row != out_row) return 1;
    return blocks == 1 ? 2 : 0;
  });
}

std::string scale_impulse(Subject& s) {
  std::int32_t expert = -1;
  std::int64_t row = -1;
  for (const OwnedRow& r : owned_rows(s.problem(), s.inputs()))
    if (r.expert >= 0 && row < 0) expert = r.expert, row = r.row;
  if (row < 0) throw NotApplicable("no group owns a row");
  if (std::string found = weight_scale_impulse(s, expert); !found.empty())
    return "weight scale doubled: " + found;
  if (s.problem().contract == Contract::routed) return {};  // rows of a token are several
  std::string found = row_scale_impulse(s, row, row);
  return found.empty() ? found : "activation scale doubled: " + found;
}

std::string floors_are_far(const Subject& s) {
  const DataMode data = s.problem().data;
  return data == DataMode::normal || data == DataMode::exact || data == DataMode::impulse
             ? ""
             : fmt::format("{} data meet the floor of scales", moe::name(data));
}

const Property kTable[] = {
    {"P4a", PropertyClass::exact, "The scales of the last GEMM times 2 give its output times 2.",
     "results that bf16 holds", "a scale that is dropped, cut to its exponent or applied twice",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1)});
     },
     down_scale},
    {"P4b", PropertyClass::exact, "The up half of GEMM 1's scales times 2 gives the output times 2.",
     "silu or gelu with a gate, block or channel scales, data far from the floor of scales",
     "gate and up exchanged, a scale of the gate half used for both",
     [](const Subject& s) {
       const Activation a = s.shape().activation;
       const bool linear = a == Activation::silu_mul || a == Activation::gelu_tanh_mul;
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1),
                        linear ? "" : "its activation is not linear in up",
                        s.problem().quant.tensor() ? "one scale covers both halves" : "", floors_are_far(s)});
     },
     up_scale},
    {"P4c", PropertyClass::exact, "Activations times 2 under half the scales of GEMM 1 change nothing.",
     "data far from the floor of scales", "an activation scale of another row or block, a stale amax",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), not_nasty(s)});
     },
     input_against_scale},
    {"P4d", PropertyClass::exact, "Routing weights times 2 give the output times 2.", "weights on the output",
     "a weight that is applied twice, left out or normalised again",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::combine}), needs_tokens(s, 1), weights_on_output(s)});
     },
     routing_weights},
    {"P9", PropertyClass::bounded, "The output is linear in the routing weights.",
     "weights on the output, gemm2 shown, known arithmetic", "a weight in the wrong place, a sum that is cut",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::combine}), needs_tokens(s, 1), weights_on_output(s),
                        known_order(s)});
     },
     linear_in_weights},
    {"P23", PropertyClass::contract, "An expert whose scales are 1e-23 or 1e-38 gives finite outputs.",
     "a token that goes there", "the reciprocal of a tiny scale, 0 times infinity",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1)});
     },
     tiny_scales},
    {"P34", PropertyClass::exact, "A doubled scale changes the elements that it covers and no other.",
     "grouped_gemm, no bias, normal data", "a scale of another expert, column block, k block or row",
     [](const Subject& s) {
       const DataMode data = s.problem().data;
       return first_of(
           {only_for(s, {Op::grouped_gemm}), needs_tokens(s, 1), no_bias(s),
            data == DataMode::normal || data == DataMode::impulse ? "" : "a block may hold zeros only"});
     },
     scale_impulse},
};

}  // namespace

std::span<const Property> scale_properties() { return kTable; }

}  // namespace moe::harness
