#include "reference/interval.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace moe::reference {
namespace {

// The exponent of a number that is neither zero nor subnormal; below all formats' for those.
int exponent_of(double x) { return int(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7FF) - 1023; }

// Nearest multiple of the format's unit at |x|, ties to even: at 1.5 * 2^52 units a double's last bit is one
// unit, so that an addition rounds there; what the sum had before is taken off again without rounding. Zeros
// keep their sign.
double round_significand(double x, int fraction_bits, int min_exponent) {
  constexpr int kLargest = 900;  // far behind every format: 1.5 * 2^52 units are still finite
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(exponent_of(x), min_exponent);
  if (exponent > kLargest) return x;
  const auto shift = std::uint64_t(exponent - fraction_bits + 52 + 1023) << 52;
  const double large = 1.5 * std::bit_cast<double>(shift);
  return std::copysign((x + large) - large, x);
}

}  // namespace

Interval widen(Interval x, double relative, double absolute) {
  const auto grown = [=](double end, double sign) {
    return std::isinf(end) ? end : end + sign * (std::fabs(end) * relative + absolute);
  };
  return {grown(x.low, -1), grown(x.high, 1)};
}

Interval hull(Interval a, Interval b) { return {std::fmin(a.low, b.low), std::fmax(a.high, b.high)}; }

Interval multiply(Interval a, Interval b) {
  const double p[4] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

Interval add(Interval a, Interval b) { return {a.low + b.low, a.high + b.high}; }

double round_bf16(double x) {
  const double rounded = round_significand(x, 7, -126);
  return std::fabs(rounded) >= 0x1p128 ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double round_f32(double x) {
  const double rounded = round_significand(x, 23, -126);
  return std::fabs(rounded) >= 0x1p128 ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double round_e4m3(double x) {
  if (std::isnan(x)) return x;
  if (std::fabs(x) >= 448) return std::copysign(448.0, x);
  return std::fmin(std::fmax(round_significand(x, 3, -6), -448.0), 448.0);
}

double round_to(DType type, double x) {
  switch (type) {
    case DType::bf16:
      return round_bf16(x);
    case DType::f32:
      return round_f32(x);
    case DType::e4m3:
      return round_e4m3(x);
    default:
      throw std::logic_error("round_to: no rounding to this element type");
  }
}

Interval round_to(DType type, Interval x) { return {round_to(type, x.low), round_to(type, x.high)}; }

}  // namespace moe::reference
