// What may a rounded result be when the exact one is only known to lie between two doubles? Rounding is
// monotone, so the rounded ends enclose every rounded value in between: that turns an error bound in front of
// a rounding into a bound behind it without the slack of a relative error.
#pragma once
#include <cmath>

#include "fixtures/problem/tensor.hpp"

namespace moe::reference {

struct Interval {
  double low = 0, high = 0;
  double middle() const { return 0.5 * (low + high); }
  double radius() const { return 0.5 * (high - low); }
  double magnitude() const { return std::fmax(std::fabs(low), std::fabs(high)); }  // largest |x|
  double mignitude() const { return low > 0 ? low : high < 0 ? -high : 0; }        // smallest |x|
};

/// Around a value: [value - bound, value + bound].
inline Interval around(double value, double bound) { return {value - bound, value + bound}; }
/// Grown by a relative part of each end and an absolute part.
Interval widen(Interval x, double relative, double absolute);
/// The smallest interval that holds both.
Interval hull(Interval a, Interval b);
Interval multiply(Interval a, Interval b);
Interval add(Interval a, Interval b);

/// Nearest number of the type, ties to even, straight from the double (no double rounding). Overflow becomes
/// infinity (bf16, f32) or the largest code (e4m3: 448); NaN stays NaN.
double round_bf16(double x);
double round_f32(double x);
double round_e4m3(double x);
double round_to(DType type, double x);  // bf16, f32, e4m3
Interval round_to(DType type, Interval x);

}  // namespace moe::reference
