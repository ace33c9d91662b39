#include "reference/stage_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fixtures/problem/number_formats.hpp"
#include "reference/operands.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {

std::vector<float> bf16_row(const Tensor& tensor, std::int64_t row) {
  const std::int64_t columns = tensor.shape().back();
  const auto codes = tensor.as<std::uint16_t>().subspan(std::size_t(row * columns), std::size_t(columns));
  std::vector<float> values(codes.size());
  std::transform(codes.begin(), codes.end(), values.begin(),
                 [](std::uint16_t code) { return decode_bf16(code); });
  return values;
}

const float* input_weights(const Problem& problem, StageTensors tensors) {
  if (!problem.shape.weight_on_input) return nullptr;
  const bool given = tensors.outputs.has("topk_weights") || tensors.inputs.has("topk_weights");
  if (problem.op == Op::quantize && !given) return nullptr;
  return lookup(tensors.outputs, tensors.inputs, "topk_weights").as<float>().data();
}

std::vector<float> hidden_row(const Problem& problem, StageTensors tensors, std::int64_t token) {
  std::vector<float> row = bf16_row(lookup(tensors.outputs, tensors.inputs, "hidden"), token);
  const float* weights = input_weights(problem, tensors);
  if (weights == nullptr) return row;
  for (float& x : row) x = weighted_input(x, weights[token * problem.shape.top_k]);
  return row;
}

WeightPlace weight_place(const Problem& problem, const Semantics* semantics) {
  if (problem.shape.weight_on_input) return WeightPlace::input;
  return semantics && semantics->weight_place == WeightPlace::gemm2 ? WeightPlace::gemm2
                                                                    : WeightPlace::combine;
}

double combine_weight(WeightPlace place, float topk_weight) {
  return place == WeightPlace::combine ? double(topk_weight) : 1.0;
}

std::int64_t scale_groups(QuantKind kind, std::int64_t columns) {
  return kind == QuantKind::block128 ? (columns + kScaleBlock - 1) / kScaleBlock : 1;
}

ColumnRange group_columns(QuantKind kind, std::int64_t columns, std::int64_t group) {
  if (kind != QuantKind::block128) return {0, columns};
  return {group * kScaleBlock, std::min<std::int64_t>(kScaleBlock, columns - group * kScaleBlock)};
}

std::vector<std::int64_t> all_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

float hidden_amax(const Problem& problem, StageTensors tensors, int threads) {
  std::vector<float> amax(static_cast<std::size_t>(problem.shape.tokens), 0.0f);
  parallel_for(problem.shape.tokens, threads,
               [&](std::int64_t t) { amax[std::size_t(t)] = amax_of(hidden_row(problem, tensors, t)); });
  return amax_of(amax);
}

}  // namespace moe::reference
