// Does the interval of an activation hold every fp32 evaluation that is right, and no other?
#include "reference/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace moe::reference {
namespace {

const MoeShape kShape;  // silu_mul

bool holds(float g, float u, float value) {
  const Interval x = activate(kShape, nullptr, Interval{g, g}, Interval{u, u});
  return x.low <= value && value <= x.high;
}

float by_exp(float g) { return g / (1.0f + std::exp(-g)); }
float by_sigmoid(float g) { return g * (1.0f / (1.0f + std::exp(-g))); }
float by_tanh(float g) { return 0.5f * g * (1.0f + std::tanh(0.5f * g)); }

// Catches: a right kernel failed for the form of its silu: made of tanh it cancels for negative gates.
TEST(Activation, EveryFormOfSiluIsHeld) {
  for (float g = -90.0f; g <= 90.0f; g += 1.0f / 64)
    for (const float u : {1.0f, -3.5f, 1024.0f}) {
      EXPECT_TRUE(holds(g, u, by_exp(g) * u)) << g;
      EXPECT_TRUE(holds(g, u, by_sigmoid(g) * u)) << g;
      EXPECT_TRUE(holds(g, u, by_tanh(g) * u)) << g;
    }
}

// Catches: room for that form that lets another activation pass: 1 % more, an alpha, or a cut to zero.
TEST(Activation, OtherActivationsAreNot) {
  for (float g = -8.0f; g <= 8.0f; g += 0.37f) {
    EXPECT_FALSE(holds(g, 1, by_exp(g) * 1.01f)) << g;
    EXPECT_FALSE(holds(g, 1, g / (1.0f + std::exp(-1.702f * g)))) << g;
    EXPECT_FALSE(holds(g, 1, 0)) << g;
  }
}

// Catches: the room of undeclared kernels given to one whose roundings are known.
TEST(Activation, DeclaredRoundingsHaveNoRoomForIt) {
  const Semantics declared;
  const Interval g{-12, -12}, u{1, 1};
  const Interval known = activate(kShape, &declared, g, u), any = activate(kShape, &declared, g, u, true);
  EXPECT_LT(known.radius() * 20, any.radius());
}

}  // namespace
}  // namespace moe::reference
