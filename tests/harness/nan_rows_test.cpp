// Activations of a file may hold NaN or an infinity. A NaN does not count for its group's scale, its code is
// NaN, and so is all that its rows reach: the bit model and the bounds must say the same of it.
#include <gtest/gtest.h>

#include <limits>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/judge.hpp"
#include "reference/layer.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kSick = 3;  // the token

struct Trial {
  Case c;
  TensorSet inputs, outputs;
  Trial(QuantKind kind, Activation activation, float value) {
    Problem& p = c.problem;
    p.shape = {.tokens = 9, .hidden = 256, .intermediate = 128, .experts = 4, .top_k = 2};
    p.shape.activation = activation;
    if (activation == Activation::silu_mul_clamped)
      p.shape.limit = 7, p.shape.alpha = 1.702, p.shape.beta = 1;
    p.quant.kind = kind;
    p.routing.ids = IdKind::given;
    c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
    inputs = make_inputs(p, c.choice, routing_of(p), 1);
    inputs.at("hidden").as<std::uint16_t>()[kSick * 256 + 17] = encode_bf16(value);
    outputs = reference::exact_layer(p, semantics_preset("moeproof", p.quant), inputs, 1);
  }
  Verdict verdict(bool declared) const {
    JudgePlan plan;
    if (declared) plan.semantics = semantics_preset("moeproof", c.problem.quant);
    plan.by_interval = declared;
    return judge(c, inputs, outputs, plan);
  }
};

constexpr QuantKind kKinds[] = {QuantKind::block128, QuantKind::token_channel, QuantKind::tensor_dynamic,
                                QuantKind::tensor_static};
constexpr Activation kActivations[] = {Activation::silu_mul, Activation::silu_mul_clamped,
                                       Activation::gelu_tanh_mul, Activation::relu2};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// Catches: bounds that let a code of NaN be 448 or zero, so that the bit model fails its own judge.
TEST(NanRows, TheBitModelPassesItsBounds) {
  for (const QuantKind kind : kKinds)
    for (const Activation activation : kActivations)
      for (const float value : {kNan, kInf, -kInf})
        for (const bool declared : {true, false}) {
          const Verdict v = Trial(kind, activation, value).verdict(declared);
          EXPECT_NE(v.correctness, Correctness::failed)
              << name(kind) << " " << int(activation) << " " << value << " " << declared << ": " << v.reason;
        }
}

// Catches: a kernel that makes a number of a NaN, in the code or in a sum.
TEST(NanRows, ANumberInPlaceOfNanFails) {
  for (const QuantKind kind : kKinds) {
    Trial code(kind, Activation::silu_mul, kNan);
    EXPECT_EQ(code.outputs.at("x_codes").as<std::uint8_t>()[kSick * 256 + 17] & 0x7F, 0x7F);
    code.outputs.at("x_codes").as<std::uint8_t>()[kSick * 256 + 17] = 0;
    EXPECT_EQ(code.verdict(false).correctness, Correctness::failed) << name(kind);
    Trial sum(kind, Activation::silu_mul, kNan);
    for (std::uint16_t& y : sum.outputs.at("gemm1").as<std::uint16_t>())
      if ((y & 0x7FFFu) > 0x7F80u) y = 0;
    EXPECT_EQ(sum.verdict(false).correctness, Correctness::failed) << name(kind);
  }
}

}  // namespace
}  // namespace moe::harness
