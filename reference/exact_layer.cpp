// The stages to the bit, one after the other, put into canonical tensors.
#include <algorithm>
#include <cstring>

#include "reference/layer.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

// The judged rows of a truth at their places in a tensor of all rows; rows that nobody judges stay zero.
Tensor canonical(const TensorTruth& truth, std::vector<std::int64_t> shape) {
  Tensor tensor(truth.tensor, truth.type, std::move(shape));
  const std::size_t row_bytes = std::size_t(truth.columns) * size_of(truth.type);
  for (std::size_t i = 0; i < truth.rows.size(); ++i)
    std::memcpy(tensor.data() + std::size_t(truth.rows[i]) * row_bytes, truth.bits.data() + i * row_bytes,
                row_bytes);
  return tensor;
}

std::vector<std::int64_t> scale_shape(QuantKind kind, std::int64_t rows, std::int64_t columns) {
  if (kind == QuantKind::block128) return {rows, scale_groups(kind, columns)};
  if (kind == QuantKind::token_channel) return {rows};
  return {1};
}

}  // namespace

TensorSet exact_layer(const Problem& problem, const Semantics& semantics, const TensorSet& inputs,
                      int threads) {
  const MoeShape& shape = problem.shape;
  const QuantKind kind = problem.quant.kind;
  const TruthOptions options{&semantics, true, false, threads};
  TensorSet outputs = routed(problem, inputs);
  const StageTensors tensors{inputs, outputs};
  const std::vector<std::int64_t> tokens = all_rows(shape.tokens), pairs = all_rows(shape.pairs());
  const StageTruth x = quantize_truth(problem, tensors, tokens, options);
  outputs.add(canonical(x.at("x_codes"), {shape.tokens, shape.hidden}));
  outputs.add(canonical(x.at("x_scale"), scale_shape(kind, shape.tokens, shape.hidden)));
  outputs.add(canonical(gemm_truth(problem, 1, tensors, pairs, options).at("gemm1"),
                        {shape.pairs(), shape.up_rows()}));
  const StageTruth h = act_quant_truth(problem, tensors, pairs, options);
  outputs.add(canonical(h.at("act_codes"), {shape.pairs(), shape.local_intermediate()}));
  outputs.add(canonical(h.at("act_scale"), scale_shape(kind, shape.pairs(), shape.local_intermediate())));
  outputs.add(
      canonical(gemm_truth(problem, 2, tensors, pairs, options).at("gemm2"), {shape.pairs(), shape.hidden}));
  outputs.add(
      canonical(combine_truth(problem, tensors, tokens, options).at("out"), {shape.tokens, shape.hidden}));
  return outputs;
}

}  // namespace moe::reference
