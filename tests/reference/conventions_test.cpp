// Is the layer the layer that everyone means? Each convention (gate and up order, scale axes, weight on
// input, expert offsets, pairs without an expert) against plain loops or numbers worked out by hand.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "layer_draw.hpp"
#include "plain_layer.hpp"
#include "reference/layer.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

constexpr QuantKind kKinds[] = {QuantKind::tensor_static, QuantKind::tensor_dynamic, QuantKind::token_channel,
                                QuantKind::block128};

double bf16_at(const Tensor& tensor, std::int64_t i) { return decode_bf16(tensor.as<std::uint16_t>()[i]); }

// Equal to the real value rounded to bf16, but for double's own noise where products of size 1 cancel.
bool rounds_to(double got, double real) {
  return std::fabs(got - real) <= std::fabs(real) * 0x1.00001p-8 + 1e-12;
}

// Catches: up taken for gate, a scale read along the wrong axis, the routing weight applied twice or not at
// all, an expert-parallel rank that reads expert 0, a pair without an expert that adds something.
RC_GTEST_PROP(Conventions, IdealLayerIsThePlainLoop, (std::uint64_t seed)) {
  draw::Random random(seed);
  const draw::Layer layer = draw::layer(random, kKinds[random() % 4]);
  const Problem& problem = layer.problem;
  const std::vector<std::int64_t> tokens = {problem.shape.tokens - 1, 0};
  const std::vector<double> got = ideal_layer(problem, layer.inputs, tokens, 2);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const plain::Row want = plain::layer(problem, layer.inputs, tokens[t]);
    double size = 0;
    for (const double x : want) size = std::fmax(size, std::fabs(x));
    for (std::size_t h = 0; h < want.size(); ++h)
      RC_ASSERT(std::fabs(got[t * want.size() + h] - want[h]) <= 1e-9 * size + 1e-280);
  }
}

// Catches: a stage of spec that rounds twice, reads another row's scale, or leaves a row of another rank
// non-zero.
RC_GTEST_PROP(Conventions, SpecStagesArePlainLoopsRoundedOnce, (std::uint64_t seed)) {
  draw::Random random(seed);
  const draw::Layer layer = draw::layer(random, kKinds[random() % 4]);
  const Problem& problem = layer.problem;
  const MoeShape& shape = problem.shape;
  const TensorSet out = spec_layer(problem, Semantics{}, layer.inputs, 2);
  for (std::int64_t pair = 0; pair < shape.pairs(); ++pair) {
    const std::int64_t e = plain::expert_of(problem, layer.inputs, pair);
    plain::Row up(shape.up_rows(), 0.0), down(shape.hidden, 0.0);
    if (e >= 0) {
      up = plain::multiply(
          problem, layer.inputs, 1, e,
          plain::dequantised(problem, out.at("x_codes"), out.at("x_scale"), pair / shape.top_k));
      down = plain::multiply(problem, layer.inputs, 2, e,
                             plain::dequantised(problem, out.at("act_codes"), out.at("act_scale"), pair));
    }
    for (std::int64_t i = 0; i < shape.up_rows(); ++i)
      RC_ASSERT(rounds_to(bf16_at(out.at("gemm1"), pair * shape.up_rows() + i), up[i]));
    for (std::int64_t i = 0; i < shape.hidden; ++i)
      RC_ASSERT(rounds_to(bf16_at(out.at("gemm2"), pair * shape.hidden + i), down[i]));
  }
  for (std::int64_t token = 0; token < shape.tokens; ++token)
    for (std::int64_t h = 0; h < shape.hidden; ++h) {
      double sum = 0;
      for (int j = 0; j < shape.top_k; ++j) {
        const double w = layer.inputs.at("topk_weights").as<float>()[token * shape.top_k + j];
        sum += (shape.weight_on_input ? 1 : w) *
               bf16_at(out.at("gemm2"), (token * shape.top_k + j) * shape.hidden + h);
      }
      RC_ASSERT(rounds_to(bf16_at(out.at("out"), token * shape.hidden + h), sum));
    }
}

// Catches: a change of several conventions at once that keeps the loops above consistent. One token, one
// expert of two on rank 1 of 2, worked out by hand: x = 1 in column 0, gate row 0 has weight 2 * 0.5, up row
// 0 has 4 * 0.5, so h = silu(1) * 2 = 1.46212, quantised under the static scale 1/64 to code 96 (93.58 lies
// between 88 and 96), that is 1.5; w2 row 3 has 1 * 0.25 and the routing weight is 0.5: out[3] = 0.1875.
TEST(Conventions, OneTokenByHand) {
  Problem problem;
  problem.quant.kind = QuantKind::tensor_static;
  problem.rank = 1;
  MoeShape& shape = problem.shape;
  shape.hidden = 16, shape.intermediate = 16, shape.experts = 2, shape.top_k = 1, shape.ep = 2;
  TensorSet in;
  const auto add = [&](const char* name, DType type, std::vector<std::int64_t> s) -> Tensor& {
    in.add(Tensor(name, type, std::move(s)));
    return in.at(name);
  };
  add("hidden", DType::bf16, {1, 16}).as<std::uint16_t>()[0] = encode_bf16(1);
  add("topk_ids", DType::i32, {1, 1}).as<std::int32_t>()[0] = 1;
  add("topk_weights", DType::f32, {1, 1}).as<float>()[0] = 0.5f;
  auto w13 = add("w13", DType::e4m3, {1, 32, 16}).as<std::uint8_t>();
  w13[0] = encode_e4m3(2), w13[16 * 16] = encode_e4m3(4);
  add("w13_scale", DType::f32, {1}).as<float>()[0] = 0.5f;
  add("w2", DType::e4m3, {1, 16, 16}).as<std::uint8_t>()[3 * 16] = encode_e4m3(1);
  add("w2_scale", DType::f32, {1}).as<float>()[0] = 0.25f;
  add("a1_scale", DType::f32, {1}).as<float>()[0] = 1.0f / 64;
  add("a2_scale", DType::f32, {1}).as<float>()[0] = 1.0f / 64;
  const TensorSet out = spec_layer(problem, Semantics{}, in, 1);
  EXPECT_EQ(bf16_at(out.at("gemm1"), 0), 1.0);
  EXPECT_EQ(bf16_at(out.at("gemm1"), 16), 2.0);
  EXPECT_EQ(decode_e4m3(out.at("act_codes").as<std::uint8_t>()[0]), 96.0f);
  EXPECT_EQ(bf16_at(out.at("out"), 3), 0.1875);
  EXPECT_NEAR(ideal_layer(problem, in, std::vector<std::int64_t>{0}, 1)[3],
              0.5 * 0.25 * 2 / (1 + std::exp(-1.0)), 1e-12);
  problem.rank = 0;  // the other rank has nothing to do
  EXPECT_EQ(bf16_at(spec_layer(problem, Semantics{}, in, 1).at("out"), 3), 0.0);
}

// Catches: a crash or a write when a rank is idle.
TEST(Conventions, AnIdleRankGivesEmptyTensors) {
  draw::Random random(3);
  Problem problem;
  problem.shape = {.tokens = 0, .hidden = 128, .intermediate = 128, .experts = 4, .top_k = 2};
  const TensorSet in = draw::layer_inputs(random, problem, draw::Flavour::normal);
  EXPECT_EQ(spec_layer(problem, Semantics{}, in, 2).at("out").size(), 0);
  EXPECT_TRUE(ideal_layer(problem, in, {}, 2).empty());
}

}  // namespace
}  // namespace moe::reference
