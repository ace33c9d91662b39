// Which small layers try the reference hard? Seeded draws of a whole layer's inputs in canonical form: every
// scheme, activation, bias, weight on input, expert-parallel ranks, pairs without an expert, and data from
// tame to nasty.
#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::reference::draw {

using Random = std::mt19937_64;
/// normal: what layers hold; wide: exponents far apart; sparse: mostly zeros, zero groups; same_sign: every
/// truncation points the same way; cancelling: large values of both signs.
enum class Flavour { normal, wide, sparse, same_sign, cancelling };
inline constexpr int kFlavours = 5;

struct Layer {
  Problem problem;
  TensorSet inputs;
};

inline float number(Random& random, Flavour flavour) {
  std::normal_distribution<float> normal(0, 1);
  switch (flavour) {
    case Flavour::normal:
      return normal(random);
    case Flavour::wide:
      return std::ldexp(normal(random), int(random() % 24) - 16);
    case Flavour::sparse:
      return random() % 8 ? 0.0f : normal(random);
    case Flavour::same_sign:
      return std::fabs(normal(random)) + 0.1f;
    case Flavour::cancelling:
      return random() % 2 ? 3.0f : -3.0f;
  }
  return 0;
}

inline Tensor bf16_tensor(Random& random, Flavour flavour, std::string name,
                          std::vector<std::int64_t> shape) {
  Tensor tensor(std::move(name), DType::bf16, std::move(shape));
  for (auto& code : tensor.as<std::uint16_t>()) code = encode_bf16(number(random, flavour));
  return tensor;
}

inline Tensor code_tensor(Random& random, Flavour flavour, std::string name,
                          std::vector<std::int64_t> shape) {
  Tensor tensor(std::move(name), DType::e4m3, std::move(shape));
  for (auto& code : tensor.as<std::uint8_t>()) code = encode_e4m3(100 * number(random, flavour));
  return tensor;
}

inline Tensor float_tensor(Random& random, float low, float high, std::string name,
                           std::vector<std::int64_t> shape) {
  Tensor tensor(std::move(name), DType::f32, std::move(shape));
  std::uniform_real_distribution<float> uniform(low, high);
  for (float& x : tensor.as<float>()) x = uniform(random);
  return tensor;
}

inline std::vector<std::int64_t> weight_scale_shape(QuantKind kind, std::int64_t experts, std::int64_t n,
                                                    std::int64_t k) {
  if (kind == QuantKind::block128) return {experts, (n + 127) / 128, (k + 127) / 128};
  if (kind == QuantKind::token_channel) return {experts, n};
  return {experts};
}

inline void add_routing(Random& random, const MoeShape& shape, TensorSet& inputs) {
  Tensor ids("topk_ids", DType::i32, {shape.tokens, shape.top_k});
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    std::vector<std::int32_t> experts(std::size_t(shape.experts));
    for (int e = 0; e < shape.experts; ++e) experts[std::size_t(e)] = e;
    std::shuffle(experts.begin(), experts.end(), random);
    for (int j = 0; j < shape.top_k; ++j)
      ids.as<std::int32_t>()[std::size_t(t * shape.top_k + j)] = random() % 10 ? experts[std::size_t(j)] : -1;
  }
  inputs.add(std::move(ids));
  inputs.add(float_tensor(random, 0.05f, 1.0f, "topk_weights", {shape.tokens, shape.top_k}));
}

inline TensorSet layer_inputs(Random& random, const Problem& problem, Flavour flavour) {
  const MoeShape& shape = problem.shape;
  const std::int64_t experts = shape.local_experts(), up = shape.up_rows(),
                     middle = shape.local_intermediate();
  TensorSet inputs;
  inputs.add(bf16_tensor(random, flavour, "hidden", {shape.tokens, shape.hidden}));
  add_routing(random, shape, inputs);
  inputs.add(code_tensor(random, flavour, "w13", {experts, up, shape.hidden}));
  inputs.add(float_tensor(random, 2e-4f, 1e-3f, "w13_scale",
                          weight_scale_shape(problem.quant.kind, experts, up, shape.hidden)));
  inputs.add(code_tensor(random, flavour, "w2", {experts, shape.hidden, middle}));
  inputs.add(float_tensor(random, 2e-4f, 1e-3f, "w2_scale",
                          weight_scale_shape(problem.quant.kind, experts, shape.hidden, middle)));
  if (shape.bias) {
    inputs.add(float_tensor(random, -1, 1, "w13_bias", {experts, up}));
    inputs.add(float_tensor(random, -1, 1, "w2_bias", {experts, shape.hidden}));
  }
  if (problem.quant.kind == QuantKind::tensor_static) {
    inputs.add(float_tensor(random, 0.004f, 0.012f, "a1_scale", {1}));
    inputs.add(float_tensor(random, 0.004f, 0.012f, "a2_scale", {1}));
  }
  return inputs;
}

/// A layer of a few tokens and experts; block scales get multiples of 128, other schemes odd multiples of 16.
inline Layer layer(Random& random, QuantKind kind) {
  Layer result;
  Problem& problem = result.problem;
  MoeShape& shape = problem.shape;
  problem.quant.kind = kind;
  problem.quant.scale_format =
      kind == QuantKind::block128 && random() % 3 == 0 ? ScaleFormat::ue8m0 : ScaleFormat::f32;
  const std::int64_t unit = kind == QuantKind::block128 ? 128 : 16;
  shape.tokens = 1 + std::int64_t(random() % 6);
  shape.hidden = unit * (1 + std::int64_t(random() % 3));
  shape.intermediate = unit * (1 + std::int64_t(random() % 2));
  shape.experts = 4;
  shape.activation = Activation(random() % 4);
  if (shape.activation == Activation::silu_mul_clamped)
    shape.limit = 1.5, shape.alpha = 1.702, shape.beta = 1;
  shape.bias = random() % 3 == 0;
  shape.weight_on_input = random() % 4 == 0;
  shape.top_k = shape.weight_on_input ? 1 : 1 + int(random() % 3);
  shape.ep = random() % 3 == 0 ? 2 : 1;
  problem.rank = int(random() % std::uint64_t(shape.ep));
  result.inputs = layer_inputs(random, problem, Flavour(random() % kFlavours));
  return result;
}

}  // namespace moe::reference::draw
