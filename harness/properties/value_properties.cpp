// What must special values give? One-hot weights, zeros, saturation, and data that leave every kernel one
// answer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fixtures/problem/number_formats.hpp"
#include "harness/judge.hpp"
#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

/// For each token another used expert that it does not name yet; -1 where there is none.
std::vector<std::int32_t> spare_experts(const Subject& s) {
  const auto ids = ids_of(s.inputs());
  const auto k = std::size_t(s.shape().top_k);
  std::vector<std::int32_t> spare;
  for (std::size_t t = 0; t < std::size_t(s.shape().tokens); ++t) {
    const auto own_ids = ids.subspan(t * k, k);
    std::int32_t found = -1;
    for (const std::int32_t id : ids)
      if (s.is_local(id) && std::find(own_ids.begin(), own_ids.end(), id) == own_ids.end()) found = id;
    spare.push_back(found);
  }
  return spare;
}

std::string weight_of_zero(Subject& s) {
  const auto k = std::size_t(s.shape().top_k);
  TensorSet weightless = s.inputs();
  own(weightless, "topk_weights");
  for (std::size_t i = k - 1; i < weights_of(weightless).size(); i += k) weights_of(weightless)[i] = 0;
  TensorSet other = weightless;
  if (s.op() == Op::combine) {
    RowMap rows = identity_map(s.shape().pairs());
    const auto ids = ids_of(s.inputs());
    for (std::size_t i = k - 1; i < rows.size(); i += k)
      if (s.is_local(ids[i - 1])) rows[i] = std::int64_t(i - 1);  // another rank's row may hold anything
    take_rows(other, "gemm2", rows);
  } else {
    own(other, "topk_ids");
    const std::vector<std::int32_t> spare = spare_experts(s);
    if (std::all_of(spare.begin(), spare.end(), [](std::int32_t id) { return id < 0; }))
      throw NotApplicable("no token has an expert to spare");
    for (std::size_t t = 0; t < spare.size(); ++t)
      if (spare[t] >= 0) ids_of(other)[t * k + k - 1] = spare[t];
  }
  const TensorSet due = s.run(weightless);
  return difference(s, other, s.run(other), due, {{}, {}, {}, true, {"out"}});
}

/// out of a token whose weights are (1, 0, ..) is its first expert's row.
std::string first_row(Subject& s, const TensorSet& inputs, const TensorSet& got) {
  const Tensor* rows = s.op() == Op::combine ? inputs.find("gemm2") : got.find("gemm2");
  if (rows == nullptr) return {};
  const Tensor& out = got.at("out");
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::int64_t token = i / out.dim(1), pair = token * s.shape().top_k;
    const bool local = s.is_local(ids_of(inputs)[std::size_t(pair)]);
    const double due = local ? value_at(*rows, pair * out.dim(1) + i % out.dim(1)) : 0;
    if (std::string found = outside(s, "out", token, i % out.dim(1), {value_at(out, i), due, 0});
        !found.empty())
      return found;
  }
  return {};
}

std::string one_hot_weights(Subject& s) {
  const auto k = std::size_t(s.shape().top_k);
  TensorSet inputs = s.inputs();
  own(inputs, "topk_weights");
  for (std::size_t i = 0; i < weights_of(inputs).size(); ++i)
    weights_of(inputs)[i] = i % k == 0 ? 1.0f : 0.0f;
  const TensorSet got = s.run(inputs);
  if (std::string found = first_row(s, inputs, got); !found.empty()) return found;
  if (s.op() == Op::combine || !s.plan().known_arithmetic ||
      s.problem().quant.kind == QuantKind::tensor_dynamic)
    return {};
  Case c = s.trial();
  c.problem.shape.top_k = 1;
  TensorSet single = inputs;
  RowMap firsts;
  for (std::int64_t pair = 0; pair < s.shape().pairs(); pair += std::int64_t(k)) firsts.push_back(pair);
  for (const char* name : {"topk_ids", "topk_weights"}) {
    Tensor flat(name, inputs.at(name).dtype(), {s.shape().pairs(), 1});
    std::copy_n(inputs.at(name).data(), flat.bytes(), flat.data());
    replace(single, flat);
    take_rows(single, name, firsts);
  }
  return difference(s, single, s.run_as(c, single), got, {{}, {}, {}, true, {"out"}});
}

std::string large_inputs(Subject& s) {
  TensorSet inputs = s.inputs();
  Tensor& hidden = own(inputs, "hidden");
  if (s.op() == Op::quantize) {
    const std::uint16_t largest = 0x7F7F;
    for (std::int64_t t = 0; t < s.shape().tokens; ++t)
      hidden.as<std::uint16_t>()[std::size_t(t * s.shape().hidden)] = largest;
  } else {
    scale_bf16(hidden, 64);
  }
  return not_finite(s, inputs, s.run(inputs));
}

/// The stages whose data leave one answer are judged to the bit, whatever the kernel declares.
std::string one_answer(Subject& s, DataMode data) {
  const Case c = s.case_of(data);
  const TensorSet inputs = s.inputs_of(data);
  const TensorSet outputs = s.run_as(c, inputs);
  JudgePlan how;
  how.threads = s.plan().threads;
  const Verdict v = judge(c, inputs, outputs, how);
  s.note(v.checked, v.checked);
  return v.correctness == Correctness::failed ? v.reason : "";
}

std::string exact_data(Subject& s) { return one_answer(s, DataMode::exact); }
std::string coded_data(Subject& s) { return one_answer(s, DataMode::coded); }

/// Gates of every expert with rows are far below zero: silu and gelu of them are nothing, whatever up is.
std::string closed_gates(Subject& s) {
  constexpr int kLeast = 0xFE;  // -448
  TensorSet inputs = s.inputs();
  for (std::uint16_t& x : own(inputs, "hidden").as<std::uint16_t>()) x = encode_bf16(64.0f);
  Tensor& w13 = own(inputs, "w13");
  const std::size_t half = std::size_t(s.shape().local_intermediate() * s.shape().hidden);
  for (std::int64_t e = 0; e < w13.dim(0); ++e)
    if (w13.filled_groups.empty() || w13.filled_groups[std::size_t(e)])
      std::fill_n(w13.data() + std::size_t(e) * 2 * half, half, std::byte(kLeast));
  double most = 0;
  const Tensor& before = s.outputs().at("out");
  for (std::int64_t i = 0; i < before.size(); ++i) most = std::max(most, std::fabs(value_at(before, i)));
  if (!(most > 0) || !std::isfinite(most)) throw NotApplicable("the outputs are zeros");
  const TensorSet got = s.run(inputs);
  const Tensor& out = got.at("out");
  for (std::int64_t i = 0; i < out.size(); ++i) {
    s.note(1, 1);
    std::string found = outside(s, "out", i / out.dim(1), i % out.dim(1), {value_at(out, i), 0, 1e-6 * most});
    if (!found.empty()) return found;
  }
  return {};
}

const Property kTable[] = {
    {"P10", PropertyClass::exact, "An expert of weight 0 adds nothing, whichever it is.",
     "top_k 2, weights on the output, scales of their own",
     "a weight of another slot, a row that is added unweighted",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::combine}), needs_tokens(s, 1), needs_slots(s, 2),
                        own_scales(s), weights_on_output(s)});
     },
     weight_of_zero},
    {"P11", PropertyClass::exact, "Weights (1, 0, ..) give the first expert's row, as top_k 1 does.",
     "top_k 2, weights on the output; gemm2 shown or a known order of sums",
     "a sum over wrong rows, atomics in the sum, a slot's weight at another slot",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::combine}), needs_tokens(s, 1), needs_slots(s, 2),
                        weights_on_output(s)});
     },
     one_hot_weights},
    {"P20", PropertyClass::contract, "Finite inputs give finite outputs; what is too large saturates.",
     "data that are not nasty", "a cast without a clamp, a scale that overflows",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::quantize}), needs_tokens(s, 1), not_nasty(s)});
     },
     large_inputs},
    {"P32", PropertyClass::exact, "Data whose every sum is exact give the one answer they have.",
     "drawn anew as --data exact",
     "nearly every fault of indices, scales and tiles, whatever the kernel declares",
     [](const Subject& s) {
       return first_of(
           {only_for(s, {Op::moe_layer, Op::grouped_gemm, Op::quantize, Op::combine}), needs_tokens(s, 1)});
     },
     exact_data},
    {"P33", PropertyClass::exact, "One-hot rows name the weight that was read.",
     "grouped_gemm, drawn as --data coded",
     "transposed or shifted operands, (N, M) written for (M, N), a scale of another place",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::grouped_gemm}), needs_tokens(s, 1)});
     },
     coded_data},
    {"P35", PropertyClass::bounded, "Gates far below zero close the layer, whatever up is.",
     "silu or gelu with a gate, no bias, data that are not nasty", "gate and up exchanged",
     [](const Subject& s) {
       const Activation a = s.shape().activation;
       const bool closes = a == Activation::silu_mul || a == Activation::gelu_tanh_mul;
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), no_bias(s), not_nasty(s),
                        some_local_pair(s), closes ? "" : "its gate does not close so"});
     },
     closed_gates},
};

}  // namespace

std::span<const Property> value_properties() { return kTable; }

}  // namespace moe::harness
