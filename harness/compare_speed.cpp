#include "harness/compare_speed.hpp"

#include <algorithm>
#include <cmath>

namespace moe::harness {
namespace {

/// A MIG slice shares clock, L2 and memory with its neighbours: its times are nobody's.
bool is_slice(const Measurement& m) { return m.device.find(" MIG ") != std::string::npos; }

struct Interval {
  double least, third_quartile, median;
};

Interval interval_of(const Measurement& m, double scale) {
  std::vector<double> sorted = m.seconds;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double q) { return scale * sorted[std::size_t(q * double(sorted.size() - 1) + 0.5)]; };
  return {scale * sorted.front(), at(0.75), scale * m.median()};
}

Speed compare(const Interval& now, const Interval& before) {
  if (std::abs(now.median / before.median - 1) <= kSameShare) return Speed::same;
  if (now.third_quartile < before.least) return Speed::fast;
  if (now.least > before.third_quartile) return Speed::slow;
  return Speed::ambiguous;
}

}  // namespace

Speed compare_speed(const Measurement& now, const Measurement& before) {
  if (now.seconds.empty() || before.seconds.empty() || is_slice(now) || is_slice(before))
    return Speed::no_data;
  const Speed by_time = compare(interval_of(now, 1), interval_of(before, 1));
  if (!(now.sm_clock_hz > 0) || !(before.sm_clock_hz > 0) || by_time == Speed::same) return by_time;
  const Speed by_cycles = compare(interval_of(now, now.sm_clock_hz), interval_of(before, before.sm_clock_hz));
  return by_cycles == by_time ? by_time : Speed::ambiguous;
}

ModelAgreement compare_model(const Prediction& p, const Measurement& m) {
  if (m.seconds.empty() || !(p.seconds > 0) || is_slice(m)) return ModelAgreement::no_data;
  const double error = std::abs(m.median() / p.seconds - 1);  // as the uncertainty is meant
  return error <= p.uncertainty ? ModelAgreement::agrees : ModelAgreement::off;
}

}  // namespace moe::harness
