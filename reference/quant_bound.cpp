#include "reference/quant_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixtures/problem/number_formats.hpp"
#include "reference/quantize.hpp"

namespace moe::reference {
namespace {

// x / s, x * (1/s) and x * (448/a) differ by up to four fp32 roundings.
constexpr double kRatio = 0x1p-22;

double ceil_power_of_two(double s) { return s > 0 ? decode_ue8m0(encode_ue8m0_up(float(s))) : s; }

// code * scale is at least this, for x >= low.
double least_dequantised(double low, Interval scale, bool derived) {
  double by_code;
  if (low >= 0) {
    by_code = scale.low * round_e4m3(low == 0 ? 0 : low / scale.high * (1 - kRatio));
  } else {
    by_code = -scale.high * round_e4m3(scale.low > 0 ? -low / scale.low * (1 + kRatio) : 448);
  }
  if (!derived) return by_code;
  // Half a step: 2^-4 of a normal value, 2^-10 scales of a subnormal one.
  const double by_step = low - std::fmax(std::fabs(low) * 0x1p-4, scale.high * 0x1p-10) * (1 + 0x1p-10) -
                         std::fabs(low) * kRatio;
  return std::fmax(by_code, by_step);
}

}  // namespace

Interval scale_interval(const Semantics* semantics, const QuantScheme& scheme, Interval amax) {
  if (semantics) {
    const QuantRule rule = quant_rule(*semantics, scheme);
    return {scale_of_amax(rule, float(amax.low)), scale_of_amax(rule, float(amax.high))};
  }
  const double floor = scheme.kind == QuantKind::token_channel ? 1.0 / 512 : 1e-4;
  Interval s{amax.low / 448, std::fmax(amax.high, floor) / 448};
  s = round_to(DType::f32, widen(s, 3 * 0x1p-24, 0));
  if (scheme.scale_format == ScaleFormat::ue8m0) s = {ceil_power_of_two(s.low), ceil_power_of_two(s.high)};
  return s;
}

Interval code_interval(Interval x, float scale) {
  if (std::isinf(scale)) {  // of a group that holds an infinity: inf / inf is NaN, a number's code is 0
    const double code =
        std::isinf(x.low) || std::isnan(x.low) ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    return {code, code};
  }
  if (scale == 0 || std::isnan(scale)) return {0, 0};  // the scale itself is what is wrong
  if (std::fabs(scale) < 0x1p-126f)
    return {x.low < 0 ? -448.0 : 0, x.high > 0 ? 448.0 : 0};  // 1/s or 448/a is infinite
  const double a = x.low / scale, b = x.high / scale;
  return round_to(DType::e4m3, widen({std::fmin(a, b), std::fmax(a, b)}, kRatio, 0x1p-149));
}

Interval dequantised_interval(Interval x, Interval scale, bool derived) {
  const Interval value{least_dequantised(x.low, scale, derived), -least_dequantised(-x.high, scale, derived)};
  if (scale.low >= 0x1p-126 || (x.low == 0 && x.high == 0)) return value;
  return widen(value, 0, 448 * 0x1p-126);  // 1/s overflows and the code saturates
}

}  // namespace moe::reference
