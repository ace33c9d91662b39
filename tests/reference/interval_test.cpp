#include "reference/interval.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

#include "fixtures/problem/number_formats.hpp"
#include "reference/activation.hpp"

namespace moe::reference {
namespace {

// Catches: a rounding from double that differs from the formats' encoders on floats (ties, subnormals,
// overflow).
RC_GTEST_PROP(Interval, RoundingAgreesWithTheEncoders, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::uint32_t bits = std::uint32_t(random());
    if (random() % 2)
      bits = (bits & 0x807FFFFFu) | std::uint32_t(110 + random() % 30) << 23;  // around e4m3's range
    if (random() % 2) bits &= 0xFFFF8000u;                                     // ties of bf16
    const float x = bits_float(bits);
    if (std::isnan(x)) continue;
    RC_ASSERT(round_bf16(x) == double(decode_bf16(encode_bf16(x))));
    RC_ASSERT(round_e4m3(x) == double(decode_e4m3(encode_e4m3(x))));
    RC_ASSERT(round_f32(x) == double(x));
    const double tie = double(x) * (1 + 0x1p-24);  // a double that no float holds
    RC_ASSERT(round_f32(tie) == double(float(tie)));
  }
}

// The fp32 recipe of fixtures/README.md, written for this test.
float exp_f32(float x) {
  x = std::fmin(std::fmax(x, -87.0f), 88.0f);
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  float r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = float(1.0 / 720);
  for (const double c : {1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) p = __builtin_fmaf(p, r, float(c));
  return bits_float(float_bits(p) + (std::uint32_t(std::int32_t(n)) << 23));
}

float gate_f32(const MoeShape& shape, float g, bool libm) {
  const auto e = [&](float x) { return libm ? std::exp(x) : exp_f32(x); };
  switch (shape.activation) {
    case Activation::silu_mul:
      return g / (1.0f + e(-g));
    case Activation::silu_mul_clamped: {
      g = std::fmin(g, float(shape.limit));
      return g / (1.0f + e(-(float(shape.alpha) * g)));
    }
    case Activation::gelu_tanh_mul: {
      const float u = 0.797884561f * (g + 0.044715f * g * g * g);
      const float t = libm ? std::tanh(u) : 1.0f - 2.0f / (e(2.0f * u) + 1.0f);
      return 0.5f * g * (1.0f + t);
    }
    case Activation::relu2:
      return std::fmax(g, 0.0f) * std::fmax(g, 0.0f);
  }
  return 0;
}

// Inputs are points inside a given interval of g and u; the evaluation is the recipe or libm, with or without
// the bf16 roundings.
void check_one_activation(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  MoeShape shape;
  shape.activation = Activation(random() % 4);
  shape.limit = 7, shape.alpha = 1.702, shape.beta = 1;
  const float size = std::ldexp(1.0f, int(random() % 16) - 8);
  const float g = decode_bf16(encode_bf16(normal(random) * size)),
              u = decode_bf16(encode_bf16(normal(random) * size));
  const double spread = random() % 2 ? 0 : std::ldexp(1.0, -int(random() % 12)) * size;
  const Interval gs{g - spread * 0.7, g + spread}, us{u - spread, u + spread * 0.4};
  Semantics semantics;
  semantics.gate_rounding = GateRounding(random() % 2);
  semantics.product_rounding = ProductRounding(random() % 2);
  const auto bf16 = [](float x) { return decode_bf16(encode_bf16(x)); };
  float up = u;
  if (shape.activation == Activation::silu_mul_clamped) up = std::fmin(std::fmax(u, -7.0f), 7.0f) + 1.0f;
  float got = gate_f32(shape, g, random() % 2);
  if (shape.gated()) {
    if (semantics.gate_rounding == GateRounding::bf16) got = bf16(got);
    got = got * up;
  }
  if (semantics.product_rounding == ProductRounding::bf16) got = bf16(got);
  for (const Semantics* declared :
       {static_cast<const Semantics*>(&semantics), static_cast<const Semantics*>(nullptr)}) {
    const Interval allowed = activate(shape, declared, gs, us);
    RC_ASSERT(got >= allowed.low && got <= allowed.high);
    const double spec = activate(shape, semantics, double(g), double(u));
    RC_ASSERT(spec >= allowed.low && spec <= allowed.high);
  }
}

// Catches: an activation interval that misses an fp32 evaluation, and a real value outside its own interval.
RC_GTEST_PROP(Activation, IntervalHoldsEveryEvaluation, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) check_one_activation(random);
}

}  // namespace
}  // namespace moe::reference
