#include "reference/layer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/routing.hpp"
#include "reference/activation.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/parallel.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

std::uint16_t bf16_code(double x) { return encode_bf16(float(round_bf16(x))); }

// Rows at a time, so that the sums in double stay small beside the layer.
constexpr std::size_t kChunk = 2048;

void sum_into(const GroupedGemm& gemm, int threads, Tensor& out) {
  const std::int64_t n = gemm.w.n;
  auto codes = out.as<std::uint16_t>();
  for (std::size_t first = 0; first < gemm.rows.size(); first += kChunk) {
    const auto rows = std::span(gemm.rows).subspan(first, std::min(kChunk, gemm.rows.size() - first));
    const GroupedSum sum = grouped_sum(gemm, rows, nullptr, {std::nullopt, threads});
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::int64_t j = 0; j < n; ++j)
        codes[std::size_t(rows[i].out * n + j)] = bf16_code(sum.value[i * std::size_t(n) + std::size_t(j)]);
  }
}

// Codes and scales of `rows`, each made by `make(row)`; rows left out stay zero.
template <class MakeRow>
TensorSet quantised(const Problem& problem, const Semantics& semantics,
                    std::pair<const char*, const char*> names, std::pair<std::int64_t, std::int64_t> shape,
                    const std::vector<std::int64_t>& rows, float given, int threads, MakeRow make) {
  const QuantRule rule = quant_rule(semantics, problem.quant);
  const QuantKind kind = problem.quant.kind;
  const std::int64_t groups = scale_groups(kind, shape.second);
  Tensor codes(names.first, DType::e4m3, {shape.first, shape.second});
  std::vector<std::int64_t> scale_shape{shape.first};
  if (kind == QuantKind::block128) scale_shape.push_back(groups);
  if (problem.quant.tensor()) scale_shape = {1};
  Tensor scales(names.second, DType::f32, scale_shape);
  TensorScale whole{0, given};
  if (kind == QuantKind::tensor_dynamic) {
    std::vector<float> amax(rows.size(), 0.0f);
    parallel_for(std::int64_t(rows.size()), threads,
                 [&](std::int64_t i) { amax[std::size_t(i)] = amax_of(make(rows[std::size_t(i)])); });
    whole.amax = amax_of(amax);
    whole.scale = scale_of_amax(rule, whole.amax);
  }
  if (problem.quant.tensor()) scales.as<float>()[0] = whole.scale;
  parallel_for(std::int64_t(rows.size()), threads, [&](std::int64_t i) {
    const std::int64_t row = rows[std::size_t(i)];
    float* scale = problem.quant.tensor() ? nullptr : scales.as<float>().data() + row * groups;
    quantize_row(rule, kind, make(row), whole, codes.as<std::uint8_t>().data() + row * shape.second, scale);
  });
  TensorSet set;
  set.add(std::move(codes));
  set.add(std::move(scales));
  return set;
}

float given_scale(const Problem& problem, StageTensors tensors, const char* name) {
  if (problem.quant.kind != QuantKind::tensor_static) return 0;
  return lookup(tensors.outputs, tensors.inputs, name).as<float>()[0];
}

std::vector<std::int64_t> local_pairs(const Problem& problem, StageTensors tensors) {
  const auto experts = local_experts(problem, lookup(tensors.outputs, tensors.inputs, "topk_ids"));
  std::vector<std::int64_t> pairs;
  for (std::size_t p = 0; p < experts.size(); ++p)
    if (experts[p] >= 0) pairs.push_back(std::int64_t(p));
  return pairs;
}

void append(TensorSet& to, TensorSet from) {
  for (Tensor& tensor : from.all()) to.add(std::move(tensor));
}

}  // namespace

TensorSet routed(const Problem& problem, const TensorSet& inputs) {
  TensorSet set;
  if (inputs.has("topk_ids")) {
    set.add(inputs.at("topk_ids"));
    set.add(inputs.at("topk_weights"));
    return set;
  }
  const auto logits = inputs.at("router_logits").as<float>(), bias = inputs.at("router_bias").as<float>();
  const Routing routing = route(problem.routing.router, problem.shape, {logits.begin(), logits.end()},
                                {bias.begin(), bias.end()});
  Tensor ids("topk_ids", DType::i32, {problem.shape.tokens, problem.shape.top_k});
  Tensor weights("topk_weights", DType::f32, {problem.shape.tokens, problem.shape.top_k});
  std::copy(routing.ids.begin(), routing.ids.end(), ids.as<std::int32_t>().begin());
  std::copy(routing.weights.begin(), routing.weights.end(), weights.as<float>().begin());
  set.add(std::move(ids));
  set.add(std::move(weights));
  return set;
}

TensorSet spec_quantize(const Problem& problem, const Semantics& semantics, StageTensors tensors,
                        int threads) {
  const std::int64_t tokens = problem.shape.tokens;
  return quantised(problem, semantics, {"x_codes", "x_scale"}, {tokens, problem.shape.hidden},
                   all_rows(tokens), given_scale(problem, tensors, "a1_scale"), threads,
                   [&](std::int64_t token) { return hidden_row(problem, tensors, token); });
}

Tensor spec_gemm(const Problem& problem, const Semantics& semantics, int gemm, StageTensors tensors,
                 int threads) {
  GroupedGemm operands = layer_gemm(problem, gemm, tensors.inputs, tensors.outputs);
  if (gemm == 2 && weight_place(problem, &semantics) == WeightPlace::gemm2)
    operands.row_weight = lookup(tensors.outputs, tensors.inputs, "topk_weights").as<float>().data();
  Tensor out(gemm == 1 ? "gemm1" : "gemm2", DType::bf16, {problem.shape.pairs(), operands.w.n});
  sum_into(operands, threads, out);
  return out;
}

Tensor spec_grouped_gemm(const Problem& problem, const TensorSet& inputs, int threads) {
  const GroupedGemm operands = contract_gemm(problem, inputs);
  const Tensor& a = inputs.at("a_codes");
  std::vector<std::int64_t> shape(a.shape().begin(), a.shape().end() - 1);
  if (problem.contract == Contract::routed) shape = {problem.shape.pairs()};
  shape.push_back(operands.w.n);
  Tensor out("c", DType::bf16, shape);
  sum_into(operands, threads, out);
  return out;
}

TensorSet spec_act_quant(const Problem& problem, const Semantics& semantics, StageTensors tensors,
                         int threads) {
  const Tensor& gemm1 = lookup(tensors.outputs, tensors.inputs, "gemm1");
  const std::int64_t columns = problem.shape.local_intermediate();
  return quantised(
      problem, semantics, {"act_codes", "act_scale"}, {problem.shape.pairs(), columns},
      local_pairs(problem, tensors), given_scale(problem, tensors, "a2_scale"), threads,
      [&](std::int64_t pair) {
        const std::vector<float> in = bf16_row(gemm1, pair);
        std::vector<float> row;
        for (std::int64_t i = 0; i < columns; ++i) {
          const double up = problem.shape.gated() ? double(in[std::size_t(columns + i)]) : 0.0;
          row.push_back(float(activate(problem.shape, semantics, double(in[std::size_t(i)]), up)));
        }
        return row;
      });
}

Tensor spec_combine(const Problem& problem, const Semantics& semantics, StageTensors tensors, int threads) {
  TruthOptions options{&semantics, false, true, threads};
  const std::vector<std::int64_t> tokens = all_rows(problem.shape.tokens);
  const StageTruth truth = combine_truth(problem, tensors, tokens, options);
  const std::vector<float>& want = truth.at("out").want;
  Tensor out("out", DType::bf16, {problem.shape.tokens, problem.shape.hidden});
  std::transform(want.begin(), want.end(), out.as<std::uint16_t>().begin(),
                 [](float x) { return encode_bf16(x); });
  return out;
}

TensorSet spec_layer(const Problem& problem, const Semantics& semantics, const TensorSet& inputs,
                     int threads) {
  TensorSet outputs = routed(problem, inputs);
  const StageTensors tensors{inputs, outputs};
  append(outputs, spec_quantize(problem, semantics, tensors, threads));
  outputs.add(spec_gemm(problem, semantics, 1, tensors, threads));
  append(outputs, spec_act_quant(problem, semantics, tensors, threads));
  outputs.add(spec_gemm(problem, semantics, 2, tensors, threads));
  outputs.add(spec_combine(problem, semantics, tensors, threads));
  return outputs;
}

}  // namespace moe::reference
