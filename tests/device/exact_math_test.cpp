// The transcendental functions that kernels use, against double precision.
#include "device/kernels/exact_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace moe {
namespace {

/// Distance in units of the last place of the true value.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::fabs(double(got) - want) / std::ldexp(1.0, exponent - 23);
}

// Would catch: a constant that is off, a wrong split of ln 2, a polynomial one degree short.
TEST(ExactMath, ExpIsWithinThreeUlp) {
  double worst = 0;
  for (float x = -87.0f; x <= 88.0f; x += 0.00137f)
    worst = std::max(worst, ulps(exact::exp(x), std::exp(double(x))));
  EXPECT_LT(worst, 3.0);
  EXPECT_EQ(exact::exp(0.0f), 1.0f);
  EXPECT_EQ(exact::exp(-1000.0f), exact::exp(-87.0f));
  EXPECT_EQ(exact::exp(std::numeric_limits<float>::infinity()), exact::exp(88.0f));
  EXPECT_TRUE(std::isnan(exact::exp(std::numeric_limits<float>::quiet_NaN())));
}

// Would catch: cancellation for small e^x (a softplus built on log(1 + y) loses all of it at x = -20).
TEST(ExactMath, SoftplusAndSigmoidKeepRelativeAccuracy) {
  for (float x = -80.0f; x <= 80.0f; x += 0.0173f) {
    EXPECT_LT(
        ulps(exact::softplus(x), std::log1p(std::exp(-std::fabs(double(x)))) + std::max(double(x), 0.0)), 6.0)
        << x;
    EXPECT_LT(ulps(exact::sigmoid(x), 1.0 / (1.0 + std::exp(-double(x)))), 4.0) << x;
  }
}

// Would catch: a sign or factor two in the tanh of gelu.
TEST(ExactMath, TanhIsWithinItsAbsoluteBound) {
  for (float x = -12.0f; x <= 12.0f; x += 0.0031f)
    EXPECT_NEAR(exact::tanh(x), std::tanh(double(x)), 0x1p-22) << x;
}

}  // namespace
}  // namespace moe
