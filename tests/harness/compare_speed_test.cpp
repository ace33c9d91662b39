#include "harness/compare_speed.hpp"

#include <gtest/gtest.h>

namespace moe::harness {
namespace {

Measurement samples(std::vector<double> seconds, double clock = 0) {
  Measurement m;
  m.seconds = std::move(seconds);
  m.sm_clock_hz = clock;
  return m;
}

// Would catch a regression that is called the same, and noise that is called a regression.
TEST(CompareSpeed, Words) {
  const auto base = samples({10, 10.1, 10.2, 10.3});
  EXPECT_EQ(compare_speed(samples({8, 8.1, 8.2, 8.3}), base), Speed::fast);
  EXPECT_EQ(compare_speed(samples({12, 12.1, 12.2, 12.3}), base), Speed::slow);
  EXPECT_EQ(compare_speed(samples({10, 10.1, 10.25, 10.3}), base), Speed::same);
  EXPECT_EQ(compare_speed(samples({9, 10, 11.5, 14}), base), Speed::ambiguous);
  EXPECT_EQ(compare_speed(samples({}), base), Speed::no_data);
}

// A lower clock explains the seconds: the kernel did not change.
TEST(CompareSpeed, ThrottlingIsNotSlowness) {
  EXPECT_EQ(compare_speed(samples({20, 20.1, 20.2}, 1e9), samples({10, 10.05, 10.1}, 2e9)), Speed::ambiguous);
  EXPECT_EQ(compare_speed(samples({20, 20.1, 20.2}, 2e9), samples({10, 10.05, 10.1}, 2e9)), Speed::slow);
}

// Catches: a verdict on speed from a slice of a card, whose neighbours take clock and memory.
TEST(CompareSpeed, NoVerdictInASlice) {
  auto slice = samples({20, 20.1, 20.2});
  slice.device = "NVIDIA H200 MIG 1g.18gb";
  EXPECT_EQ(compare_speed(slice, samples({10, 10.1, 10.2})), Speed::no_data);
  EXPECT_EQ(compare_speed(samples({10, 10.1, 10.2}), slice), Speed::no_data);
  Prediction p;
  p.seconds = 20, p.uncertainty = 0.5;
  EXPECT_EQ(compare_model(p, slice), ModelAgreement::no_data);
}

TEST(CompareSpeed, ModelAgreesWithinItsUncertainty) {
  Prediction p;
  p.seconds = 11;
  p.uncertainty = 0.15;
  EXPECT_EQ(compare_model(p, samples({10})), ModelAgreement::agrees);
  p.uncertainty = 0.05;
  EXPECT_EQ(compare_model(p, samples({10})), ModelAgreement::off);
  EXPECT_EQ(compare_model(p, samples({})), ModelAgreement::no_data);
}

}  // namespace
}  // namespace moe::harness
