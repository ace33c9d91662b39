// Do activation, requantisation and combine give the bits of their formulas?
#include "reference/exact/exact_stages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

#include "fixtures/problem/number_formats.hpp"

namespace moe::reference {
namespace {

using Rng = std::mt19937_64;

std::vector<std::uint16_t> bf16_row(Rng& g, std::size_t n, float size) {
  std::normal_distribution<float> normal(0, size);
  std::vector<std::uint16_t> v(n);
  for (auto& x : v) x = encode_bf16(normal(g));
  return v;
}

// Catches a wrong constant or a missing fused operation: every float in the range on a grid, against double.
TEST(ExactStages, ExpIsWithinThreeUlp) {
  double worst = 0;
  for (std::uint32_t bits = 0x30000000u; bits <= 0x42B00000u; bits += 509)  // 2^-31 .. 88
    for (const float x : {bits_float(bits), -bits_float(bits)}) {
      if (x < -87.0f) continue;
      const double want = std::exp(double(x));
      const double ulp = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
      worst = std::max(worst, std::abs(double(exact_exp(x)) - want) / ulp);
    }
  EXPECT_LT(worst, 3.0);
  EXPECT_EQ(exact_exp(0.0f), 1.0f);
  EXPECT_EQ(exact_exp(-1000.0f), exact_exp(-87.0f));
  EXPECT_EQ(exact_exp(1000.0f), exact_exp(88.0f));
  EXPECT_TRUE(std::isnan(exact_exp(NAN)));
}

// Catches a formula that is not the named activation at all: close to it in double.
RC_GTEST_PROP(ExactStages, ActivationsAreCloseToTheirFormulas, (std::uint64_t seed)) {
  Rng g(seed);
  std::normal_distribution<float> normal(0, 3);
  const float x = decode_bf16(encode_bf16(normal(g))), u = decode_bf16(encode_bf16(normal(g)));
  MoeShape shape;
  shape.limit = 4;
  shape.alpha = 1.702;
  shape.beta = 1;
  const Semantics s;
  const double clamped = std::min<double>(x, 4), up = std::clamp<double>(u, -4, 4);
  const double want[] = {
      x / (1 + std::exp(-double(x))) * u,
      clamped / (1 + std::exp(-1.702 * clamped)) * (up + 1),
      0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * double(x) * x))) * u,
      x > 0 ? double(x) * x : 0,
  };
  for (int kind = 0; kind < 4; ++kind) {
    shape.activation = Activation(kind);
    const double got = exact_activate(shape, s, x, u);
    RC_ASSERT(std::abs(got - want[kind]) <= 2e-6 * (std::abs(want[kind]) + std::abs(double(x) * u)));
  }
}

// Catches bits of the recipe: the numbers come from an evaluation of the recipe in exact rational arithmetic.
TEST(ExactStages, SiluHasTheRecipesBits) {
  struct {
    float x;
    std::uint32_t exp, silu;
  } const cases[] = {
      {0.5f, 0x3FD3094Cu, 0x3E9F597Fu},          {-0.5f, 0x3F1B4598u, 0xBE414D03u},
      {1.0f, 0x402DF854u, 0x3F3B26A7u},          {-1.0f, 0x3EBC5AB3u, 0xBE89B2B1u},
      {2.75f, 0x417A4838u, 0x40256CBCu},         {-2.75f, 0x3D82EC9Cu, 0xBE29343Au},
      {3.140625f, 0x41B8F24Eu, 0x4040AA84u},     {-7.03125f, 0x3A67B094u, 0xBBCB742Bu},
      {10.0f, 0x46AC14EEu, 0x411FFE24u},         {-10.0f, 0x383E6BCEu, 0xB9EE03FEu},
      {0.0009765625f, 0x3F802004u, 0x3A001000u}, {-25.5f, 0x2D142FE9u, 0xAF6C2C5Bu},
      {60.0f, 0x6ABCEDE6u, 0x42700000u},         {-60.0f, 0x142D70C8u, 0x972299BBu},
      {-86.5f, 0x0113BC74u, 0x8447ACB4u},        {87.5f, 0x7E96BAB3u, 0x42AF0000u},
      {0.34765625f, 0x3FB53728u, 0x3E50A22Du},   {-0.34765625f, 0x3F34D2CDu, 0xBE135DD3u},
      {1.0390625f, 0x4034E673u, 0x3F447C69u},    {-5.1875f, 0x3BB70A63u, 0xBCEC0FE5u},
  };
  const MoeShape shape;
  for (const auto& c : cases) {
    EXPECT_EQ(float_bits(exact_exp(c.x)), c.exp) << c.x;
    EXPECT_EQ(float_bits(exact_activate(shape, Semantics{}, c.x, 1.0f)), c.silu) << c.x;
  }
}

// Catches a rounding in the wrong place or missing.
RC_GTEST_PROP(ExactStages, GateAndProductRoundWhereDeclared, (std::uint64_t seed)) {
  Rng g(seed);
  std::normal_distribution<float> normal(0, 2);
  const auto bf16 = [](float v) { return decode_bf16(encode_bf16(v)); };
  const float x = bf16(normal(g)), u = bf16(normal(g));
  for (Activation kind : {Activation::silu_mul, Activation::gelu_tanh_mul}) {
    MoeShape shape;
    shape.activation = kind;
    Semantics plain, gate, product, both;
    gate.gate_rounding = both.gate_rounding = GateRounding::bf16;
    product.product_rounding = both.product_rounding = ProductRounding::bf16;
    const float s = exact_activate(shape, plain, x, 1.0f);
    RC_ASSERT(exact_activate(shape, plain, x, u) == s * u);
    RC_ASSERT(exact_activate(shape, gate, x, u) == bf16(s) * u);
    RC_ASSERT(exact_activate(shape, product, x, u) == bf16(s * u));
    RC_ASSERT(exact_activate(shape, both, x, u) == bf16(bf16(s) * u));
  }
}

// Catches gate and up exchanged, a wrong half, and a vectorised row that differs from its elements.
RC_GTEST_PROP(ExactStages, RowsEqualTheirElements, (std::uint64_t seed)) {
  Rng g(seed);
  const std::size_t n = 1 + g() % 70;
  for (int kind = 0; kind < 4; ++kind) {
    MoeShape shape;
    shape.activation = Activation(kind);
    shape.limit = 7;
    shape.alpha = 1.702;
    shape.beta = 1;
    Semantics s;
    s.gate_rounding = GateRounding(g() % 2);
    s.product_rounding = ProductRounding(g() % 2);
    const auto row = bf16_row(g, shape.gated() ? 2 * n : n, 4);
    std::vector<float> out(n);
    exact_activation_row(shape, s, row, out);
    for (std::size_t i = 0; i < n; ++i) {
      const float u = shape.gated() ? decode_bf16(row[n + i]) : 0.0f;
      RC_ASSERT(float_bits(out[i]) == float_bits(exact_activate(shape, s, decode_bf16(row[i]), u)));
    }
  }
}

// Catches NaN that is swallowed by a clamp on the way to the codes.
TEST(ExactStages, NanReachesTheOutput) {
  MoeShape shape;
  shape.limit = 7;
  for (Activation kind : {Activation::silu_mul, Activation::silu_mul_clamped, Activation::gelu_tanh_mul}) {
    shape.activation = kind;
    EXPECT_TRUE(std::isnan(exact_activate(shape, Semantics{}, NAN, 1.0f)));
    EXPECT_TRUE(std::isnan(exact_activate(shape, Semantics{}, 1.0f, NAN)));
  }
}

// Catches a stage that quantises something else than the activated values, or scales that do not belong to
// them.
RC_GTEST_PROP(ExactStages, ActQuantCodesTimesScaleAreNearTheValues, (std::uint64_t seed)) {
  Rng g(seed);
  const std::size_t n = 128 * (1 + g() % 3);
  const MoeShape shape;
  const Semantics s;
  QuantScheme scheme;
  scheme.kind = QuantKind(g() % 4);
  scheme.scale_format = scheme.block() ? ScaleFormat(g() % 2) : ScaleFormat::f32;
  const auto row = bf16_row(g, 2 * n, 2);
  std::vector<float> values(n), scales(n / 128);
  std::vector<std::uint8_t> codes(n);
  exact_activation_row(shape, s, row, values);
  const TensorScale whole = exact_tensor_scale(s, scheme, amax_of(values));
  exact_act_quant_row(shape, s, scheme, row, whole, codes.data(), scales.data());
  for (std::size_t i = 0; i < n; ++i) {
    const float scale = scheme.tensor() ? whole.scale : scheme.block() ? scales[i / 128] : scales[0];
    const float back = decode_e4m3(codes[i]) * scale;
    RC_ASSERT(std::abs(back - values[i]) <=
              std::abs(values[i]) / 16 + scale * 0.001f);  // half a step; 2^-10 below 2^-6
  }
}

// Catches a weight that is applied after the rounding to bf16 or in the wrong precision.
TEST(ExactStages, InputWeightIsRoundedBeforeQuantisation) {
  Rng g(7);
  const auto hidden = bf16_row(g, 256, 1);
  const float weight = 0.3333f;
  std::vector<std::uint16_t> weighted(256);
  for (int i = 0; i < 256; ++i) weighted[i] = encode_bf16(decode_bf16(hidden[i]) * weight);
  std::vector<std::uint8_t> x(256), y(256);
  float sx[2], sy[2];
  exact_quantize_row(Semantics{}, QuantScheme{}, hidden, &weight, {}, x.data(), sx);
  exact_quantize_row(Semantics{}, QuantScheme{}, weighted, nullptr, {}, y.data(), sy);
  EXPECT_EQ(x, y);
  EXPECT_EQ(sx[0], sy[0]);
  EXPECT_EQ(sx[1], sy[1]);
}

// Catches another order of slots, an unfused or doubly rounded sum, a null row that is read.
RC_GTEST_PROP(ExactStages, CombineFollowsTheSlots, (std::uint64_t seed)) {
  Rng g(seed);
  const std::size_t k = 1 + g() % 8, n = 1 + g() % 40;
  std::vector<std::vector<std::uint16_t>> rows;
  std::vector<const std::uint16_t*> pointers;
  std::vector<float> weights;
  for (std::size_t j = 0; j < k; ++j) {
    rows.push_back(bf16_row(g, n, 3));
    pointers.push_back(g() % 5 ? rows[j].data() : nullptr);
    weights.push_back(float(g() % 1000003) / 1000003);
  }
  for (int mode = 0; mode < 3; ++mode) {
    Semantics s;
    s.combine_fma = mode == 0;
    std::vector<std::uint16_t> out(n);
    exact_combine_row(s, pointers, mode == 2 ? std::span<const float>{} : weights, out);
    for (std::size_t h = 0; h < n; ++h) {
      float acc = 0;
      for (std::size_t j = 0; j < k; ++j) {
        if (pointers[j] == nullptr) continue;
        const float y = decode_bf16(rows[j][h]);
        acc = mode == 0 ? std::fma(weights[j], y, acc) : mode == 1 ? acc + weights[j] * y : acc + y;
      }
      RC_ASSERT(out[h] == encode_bf16(acc));
    }
  }
}

}  // namespace
}  // namespace moe::reference
