// inv_rope_quant by its contract, against formulas in double and against the bounds.
#include "reference/inv_rope.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/rope_inputs.hpp"

namespace moe::reference {
namespace {

Problem problem_of(std::int64_t tokens, ScaleFormat format, DataMode data, std::uint64_t seed) {
  Problem p;
  p.op = Op::inv_rope_quant;
  p.shape.tokens = tokens;
  p.heads = {6, 3};
  p.quant.scale_format = format;
  p.data = data;
  p.seed = seed;
  return p;
}

TensorSet inputs_of(const Problem& p) {
  TensorSet inputs;
  add_rope_inputs(p, 1, inputs);
  return inputs;
}

Problem drawn_problem() {
  return problem_of(*rc::gen::inRange<std::int64_t>(1, 8),
                    *rc::gen::element(ScaleFormat::f32, ScaleFormat::ue8m0),
                    *rc::gen::element(DataMode::normal, DataMode::exact, DataMode::nasty),
                    *rc::gen::inRange<std::uint64_t>(1, 1'000'000));
}

// Would catch: a scale off by a power of two, groups of another size, codes that are not the nearest, a
// rotation of the wrong sign or of the wrong columns, padding that is not zero; in both formats of the scale.
// All from the definition, in double.
RC_GTEST_PROP(InvRope, IsTheNearestCodeOfTheTurnedValue, ()) {
  const Problem p = drawn_problem();
  const TensorSet inputs = inputs_of(p);
  const Semantics any;
  const StageTruth truth = inv_rope_truth(p, {inputs, {}}, {&any, true, false, 1});
  const bool packed = p.quant.scale_format == ScaleFormat::ue8m0;
  const std::int64_t T = p.shape.tokens, padded = (T + 3) / 4 * 4, hpg = 2, D = hpg * 512;
  const auto o = inputs.at("o").as<std::uint16_t>();
  const auto scale = [&](std::int64_t g, std::int64_t h, std::int64_t q, std::int64_t t) -> double {
    if (packed) {
      const auto byte =
          truth.at("o_scale").bits.as<std::uint8_t>()[std::size_t(((g * hpg + h) * padded + t) * 4 + q)];
      return t >= T ? byte : std::ldexp(1.0, byte - 127);
    }
    return truth.at("o_scale").bits.as<float>()[std::size_t((g * hpg * 4 + h * 4 + q) * padded + t)];
  };
  for (std::int64_t g = 0; g < 3; ++g)
    for (std::int64_t h = 0; h < hpg; ++h)
      for (std::int64_t q = 0; q < 4; ++q) {
        for (std::int64_t t = T; t < padded; ++t) RC_ASSERT(scale(g, h, q, t) == 0);
        for (std::int64_t t = 0; t < T; ++t) {
          const std::int64_t row = t * 6 + g * hpg + h;
          const std::int64_t position = inputs.at("positions").as<std::int64_t>()[std::size_t(t)];
          double y[128], amax = 1e-10;
          for (int j = 0; j < 128; ++j) {
            const auto i = q * 128 + j;
            const auto x = [&](std::int64_t at) {
              return double(decode_bf16(o[std::size_t(row * 512 + at)]));
            };
            y[j] = x(i);
            if (i >= 448) {
              const auto turn = [&](std::int64_t at) {
                return double(inputs.at("cos_sin").as<float>()[std::size_t(position * 64 + at)]);
              };
              const double c = turn((i - 448) / 2), s = turn(32 + (i - 448) / 2);
              y[j] = i % 2 ? x(i) * c - x(i - 1) * s : x(i) * c + x(i + 1) * s;
            }
            amax = std::fmax(amax, std::fabs(y[j]));
          }
          const double s = scale(g, h, q, t);
          RC_ASSERT(std::exp2(std::round(std::log2(s))) == s);
          RC_ASSERT(amax / s <= 448 * (1 + 1e-6) &&
                    amax / s > 224 * (1 - 1e-6));  // the smallest power of two that holds it
          for (int j = 0; j < 128; ++j) {
            const auto code =
                truth.at("o_codes")
                    .bits.as<std::uint8_t>()[std::size_t((g * T + t) * D + h * 512 + q * 128 + j)];
            const double back = double(decode_e4m3(code)) * s;
            const double step = std::fmax(std::fabs(y[j]) / 16,
                                          s * 0x1p-10);  // half a step: 2^-4 of a value, 2^-10 of a scale
            RC_ASSERT(std::fabs(back - y[j]) <= step * (1 + 1e-5));
          }
        }
      }
}

// Would catch bounds that a right kernel can break: the contract's own bits must lie inside, under every data
// mode.
RC_GTEST_PROP(InvRope, BitsLieWithinTheBounds, ()) {
  const Problem p = drawn_problem();
  const TensorSet inputs = inputs_of(p);
  const Semantics any;
  const StageTruth bits = inv_rope_truth(p, {inputs, {}}, {&any, true, false, 1});
  TensorSet own;
  own.add(bits.at("o_scale").bits);
  const StageTruth bounds = inv_rope_truth(p, {inputs, own}, {nullptr, false, true, 1});
  for (const char* name : {"o_codes", "o_scale"}) {
    const TensorTruth &b = bits.at(name), &due = bounds.at(name);
    for (std::size_t i = 0; i < due.want.size(); ++i) {
      const float got = b.type == DType::f32    ? b.bits.as<float>()[i]
                        : b.type == DType::e4m3 ? decode_e4m3(b.bits.as<std::uint8_t>()[i])
                                                : decode_ue8m0(b.bits.as<std::uint8_t>()[i]);
      RC_ASSERT(got >= due.low[i] && got <= due.high[i]);
    }
  }
}

// Would catch bounds that let a wrong kernel pass: the forward rotation, and the untouched value, must mostly
// lie outside.
TEST(InvRope, BoundsTellAnotherRotation) {
  const double x = 1.25, other = -0.75, c = 0.6, s = 0.8;
  const Interval y = inv_rope_interval(x, other, c, s);
  EXPECT_LT(y.high - y.low, 1e-6);
  EXPECT_TRUE(y.low <= x * c + other * s && x * c + other * s <= y.high);
  EXPECT_FALSE(y.low <= x * c - other * s && x * c - other * s <= y.high);
  EXPECT_FALSE(y.low <= x && x <= y.high);
}

// Would catch a scale that is rounded down or doubled where the largest value is near 448 times a power of
// two.
TEST(InvRope, ScalesAreExactAroundPowersOfTwo) {
  for (int e = -20; e <= 20; ++e) {
    const float edge = std::ldexp(448.0f, e);
    EXPECT_EQ(inv_rope_exponent(std::nextafterf(edge, 0)), 127 + e) << e;
    EXPECT_EQ(inv_rope_exponent(std::ldexp(225.0f, e)), 127 + e) << e;
    EXPECT_EQ(inv_rope_exponent(std::ldexp(449.0f, e)), 128 + e) << e;
    // 448 * fl(1/448) is 1 to the bit or one above; the contract says which.
    const float raw = edge * (1.0f / 448.0f);
    EXPECT_EQ(inv_rope_exponent(edge), 127 + e + (raw > std::ldexp(1.0f, e) ? 1 : 0)) << e;
  }
  EXPECT_EQ(inv_rope_exponent(0), inv_rope_exponent(1e-10f));
}

}  // namespace
}  // namespace moe::reference
