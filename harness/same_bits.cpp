#include "harness/same_bits.hpp"

#include <algorithm>

#include "fixtures/problem/exact_layer.hpp"

namespace moe::harness {
namespace {

bool identity_far_out(Activation a) { return a == Activation::silu_mul || a == Activation::gelu_tanh_mul; }

/// Every weight is the same power of two: products are exact, and so is their sum (fixtures/README.md).
bool exact_weights(const Problem& p, const TensorSet& inputs) {
  const Tensor* weights = inputs.find("topk_weights");
  const int k = p.shape.top_k;
  if (weights == nullptr || k > 8 || (k & (k - 1)) != 0) return false;
  const auto given = weights->as<float>();
  return std::all_of(given.begin(), given.end(), [k](float w) { return w == 1.0f / float(k); });
}

bool exact_data(const Problem& p, const TensorSet& inputs, JudgedStage stage) {
  switch (stage) {
    case JudgedStage::quantize:
      return p.op == Op::quantize || p.op == Op::moe_layer;
    case JudgedStage::gemm1:
      return p.op == Op::grouped_gemm || p.op == Op::moe_layer;
    case JudgedStage::act_quant:
      return p.op == Op::moe_layer ? exact_layer_data(p)
                                   : p.op == Op::act_quant && identity_far_out(p.shape.activation);
    case JudgedStage::gemm2:
      return p.op == Op::moe_layer && exact_layer_data(p);
    case JudgedStage::combine:
      return p.op == Op::combine || (exact_layer_data(p) && exact_weights(p, inputs));
  }
  return false;
}

}  // namespace

bool same_bits_for_all(const Problem& problem, const TensorSet& inputs, JudgedStage stage) {
  if (problem.data == DataMode::exact) return exact_data(problem, inputs, stage);
  if (problem.data == DataMode::coded) return stage == JudgedStage::gemm1 && problem.op == Op::grouped_gemm;
  return false;
}

bool same_bits_for_op(const Problem& problem, const TensorSet& inputs) {
  switch (problem.op) {
    case Op::grouped_gemm:
      return same_bits_for_all(problem, inputs, JudgedStage::gemm1);
    case Op::quantize:
      return same_bits_for_all(problem, inputs, JudgedStage::quantize);
    case Op::act_quant:
      return same_bits_for_all(problem, inputs, JudgedStage::act_quant);
    case Op::combine:
      return same_bits_for_all(problem, inputs, JudgedStage::combine);
    default:
      return false;
  }
}

bool same_bits_for_whole_layer(const Problem& problem, const TensorSet& inputs) {
  return problem.op == Op::moe_layer && same_bits_for_all(problem, inputs, JudgedStage::combine);
}

}  // namespace moe::harness
