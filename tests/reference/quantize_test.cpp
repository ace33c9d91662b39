#include "reference/quantize.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "fixtures/problem/number_formats.hpp"
#include "reference/quant_bound.hpp"

namespace moe::reference {
namespace {

// An encoder of its own: the nearest of the 127 finite magnitudes, ties to the even code, by search.
std::uint8_t nearest_code(float x) {
  if (std::isnan(x)) return 0x7F;
  const double size = std::fmin(std::fabs(double(x)), 448.0);
  int best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    const double here = std::fabs(size - decode_e4m3(std::uint8_t(code)));
    const double so_far = std::fabs(size - decode_e4m3(std::uint8_t(best)));
    if (here < so_far || (here == so_far && code % 2 == 0)) best = code;
  }
  return std::uint8_t(best | (std::signbit(x) ? 0x80 : 0));
}

QuantRule rule_of(ScaleFormula scale, QuantFormula quant, float floor = 1e-10f,
                  ScaleFormat format = ScaleFormat::f32) {
  return {floor, scale, quant, format};
}

/// The bits of the least positive amax whose scale is above `scale`: scales ascend with amax.
std::uint32_t first_above(const QuantRule& rule, float scale) {
  std::uint32_t low = 0, high = float_bits(std::numeric_limits<float>::infinity());
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (scale_of_amax(rule, bits_float(middle)) > scale)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// No amax tells the two scale formulas apart once the scale is a power of two: every step of both stands at
// the same amax. Inference rests on it (a field that no input shows is irrelevant, not undetermined).
TEST(Quantize, ScaleFormulasAreOneUnderPowersOfTwo) {
  const auto rule = [](ScaleFormula f) {
    return rule_of(f, QuantFormula::multiply_inverse, 0, ScaleFormat::ue8m0);
  };
  for (int e = 1; e < 254; ++e)
    EXPECT_EQ(first_above(rule(ScaleFormula::divide), decode_ue8m0(std::uint8_t(e))),
              first_above(rule(ScaleFormula::reciprocal), decode_ue8m0(std::uint8_t(e))))
        << e;
}

// Catches: a formula taken for another one. The groups are found by search, so each pair of formulas differs
// somewhere.
TEST(Quantize, FormulasDifferWhereTheyShould) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  int scales = 0, inverse = 0, ratio = 0;
  for (int i = 0; i < 20000; ++i) {
    const float amax = std::fabs(normal(random)) + 1e-3f, x = amax * float(random() % 2048) / 2048.0f;
    const QuantRule divide = rule_of(ScaleFormula::divide, QuantFormula::divide);
    const float s = scale_of_amax(divide, amax);
    ASSERT_EQ(s, amax / 448.0f);
    const float by_reciprocal = scale_of_amax(rule_of(ScaleFormula::reciprocal, QuantFormula::divide), amax);
    ASSERT_EQ(by_reciprocal, amax * float(1.0 / 448.0));
    scales += by_reciprocal != s;
    const std::uint8_t code = quantize_value(divide, x, amax, s);
    ASSERT_EQ(code, nearest_code(x / s));
    const float inv = 1.0f / s, quotient = 448.0f / amax;
    const std::uint8_t a =
        quantize_value(rule_of(ScaleFormula::divide, QuantFormula::multiply_inverse), x, amax, s);
    ASSERT_EQ(a, nearest_code(x * inv));
    const std::uint8_t b =
        quantize_value(rule_of(ScaleFormula::divide, QuantFormula::multiply_ratio), x, amax, s);
    ASSERT_EQ(b, nearest_code(x * quotient));
    inverse += a != code;
    ratio += b != code;
  }
  EXPECT_GT(scales, 0);
  EXPECT_GT(inverse, 0);
  EXPECT_GT(ratio, 0);
}

// Catches: ties rounded away from even. Scale 1, values half way between neighbours.
TEST(Quantize, TiesGoToTheEvenCode) {
  const QuantRule rule = rule_of(ScaleFormula::divide, QuantFormula::divide);
  for (int code = 0; code < 0x7E; ++code) {
    const float middle = 0.5f * (decode_e4m3(std::uint8_t(code)) + decode_e4m3(std::uint8_t(code + 1)));
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(quantize_value(rule, middle, 448, 1), even);
    EXPECT_EQ(quantize_value(rule, -middle, 448, 1), even | 0x80);
  }
}

// Catches: a floor that is forgotten (0 / 0) or applied to the scale instead of the amax.
TEST(Quantize, ZeroRowsFollowTheFloor) {
  const std::vector<float> zeros(256, 0.0f);
  std::vector<std::uint8_t> codes(256, 1);
  float scales[2] = {-1, -1};
  const QuantRule floored = rule_of(ScaleFormula::divide, QuantFormula::multiply_inverse);
  quantize_row(floored, QuantKind::block128, zeros, {}, codes.data(), scales);
  EXPECT_EQ(scales[0], 1e-10f / 448.0f);
  EXPECT_EQ(scales[1], scales[0]);
  EXPECT_EQ(codes, std::vector<std::uint8_t>(256, 0));
  const QuantRule bare = rule_of(ScaleFormula::divide, QuantFormula::multiply_inverse, 0);
  quantize_row(bare, QuantKind::token_channel, zeros, {}, codes.data(), scales);
  EXPECT_EQ(scales[0], 0.0f);
  EXPECT_EQ(codes,
            std::vector<std::uint8_t>(256, 0x7F));  // 0 * (1 / 0), as vLLM's per-tensor quantiser gives
}

// Catches: rounding to a power of two that goes down, or one step too far at exact powers.
RC_GTEST_PROP(Quantize, Ue8m0IsTheSmallestPowerOfTwoAbove, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const float amax = std::ldexp(1.0f + float(random() % 3) / 2, int(random() % 60) - 30) * 448.0f *
                     (random() % 2 ? 1.0f : 1.0000001f);
  const QuantRule rule =
      rule_of(ScaleFormula::divide, QuantFormula::multiply_ratio, 1e-10f, ScaleFormat::ue8m0);
  const float s = scale_of_amax(rule, amax), exact = amax / 448.0f;
  int exponent = 0;
  RC_ASSERT(std::frexp(s, &exponent) == 0.5f);
  RC_ASSERT(s >= exact && s / 2 < exact);
}

// Catches: groups shifted by one, a scale shared by two groups, the tail of a row forgotten.
RC_GTEST_PROP(Quantize, RowsAreTheirGroups, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(128 * (1 + random() % 3));
  for (float& v : x) v = normal(random) * std::ldexp(1.0f, int(random() % 20) - 10);
  const QuantRule rule = rule_of(ScaleFormula(random() % 2), QuantFormula(random() % 3));
  std::vector<std::uint8_t> codes(x.size());
  std::vector<float> scales(x.size() / 128);
  quantize_row(rule, QuantKind::block128, x, {}, codes.data(), scales.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    float amax = 0;
    for (std::size_t j = i / 128 * 128; j < i / 128 * 128 + 128; ++j) amax = std::max(amax, std::fabs(x[j]));
    RC_ASSERT(scales[i / 128] == scale_of_amax(rule, amax));
    RC_ASSERT(codes[i] == quantize_value(rule, x[i], amax, scales[i / 128]));
  }
}

// Catches: an interval that leaves out what one of the formulas gives, for exact inputs and for uncertain
// ones.
RC_GTEST_PROP(QuantBound, HoldsEveryFormula, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  QuantScheme scheme;
  scheme.scale_format = random() % 2 ? ScaleFormat::ue8m0 : ScaleFormat::f32;
  const float size = std::ldexp(1.0f, int(random() % 30) - 20);
  std::vector<float> x(128);
  for (float& v : x) v = random() % 5 ? normal(random) * size : 0.0f;
  const double spread = random() % 2 ? 0 : std::ldexp(1.0, -int(random() % 20));
  Interval amax{0, 0};
  const auto interval_of = [&](float v) { return around(v, std::fabs(v) * spread); };
  for (const float v : x)
    amax = {std::fmax(amax.low, interval_of(v).mignitude()),
            std::fmax(amax.high, interval_of(v).magnitude())};
  std::uniform_real_distribution<float> shift(-1, 1);
  std::vector<float> actual;
  for (const float v : x) actual.push_back(float(v + double(shift(random)) * 0.99 * std::fabs(v) * spread));
  Semantics semantics;
  semantics.scale_formula = ScaleFormula(random() % 2);
  semantics.quant_formula = QuantFormula(random() % 3);
  const bool declared = random() % 2;
  const QuantRule rule = quant_rule(semantics, scheme);
  const Interval allowed = scale_interval(declared ? &semantics : nullptr, scheme, amax);
  const float own_amax = amax_of(actual), scale = scale_of_amax(rule, own_amax);
  RC_ASSERT(scale >= allowed.low && scale <= allowed.high);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double code = decode_e4m3(quantize_value(rule, actual[i], own_amax, scale));
    const Interval codes = code_interval(interval_of(x[i]), scale);
    RC_ASSERT(code >= codes.low && code <= codes.high);
    const Interval values = dequantised_interval(interval_of(x[i]), allowed, true);
    RC_ASSERT(code * scale >= values.low && code * scale <= values.high);
  }
}

}  // namespace
}  // namespace moe::reference
