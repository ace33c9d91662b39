#include "harness/same_bits.hpp"

#include "fixtures/problem/exact_layer.hpp"

namespace moe::harness {
namespace {

bool identity_far_out(Activation a) { return a == Activation::silu_mul || a == Activation::gelu_tanh_mul; }

bool exact_data(const Problem& p, JudgedStage stage) {
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
    case JudgedStage::combine:  // a layer's routing weights are seldom powers of two
      return p.op == Op::combine;
  }
  return false;
}

}  // namespace

bool same_bits_for_all(const Problem& problem, JudgedStage stage) {
  if (problem.data == DataMode::exact) return exact_data(problem, stage);
  if (problem.data == DataMode::coded) return stage == JudgedStage::gemm1 && problem.op == Op::grouped_gemm;
  return false;
}

}  // namespace moe::harness
