// Did a kernel become faster or slower, and does the model say what was measured? Times are compared as
// intervals, and confirmed in clock cycles where both sides know the SM clock, so that noise and throttling
// do not make a verdict.
#pragma once
#include "fixtures/problem/measurement.hpp"
#include "fixtures/problem/prediction.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

/// Medians closer than this share count as the same.
inline constexpr double kSameShare = 0.02;

/// `now` against `before`. Intervals are [least, third quartile] of the samples: apart = fast or slow;
/// medians within kSameShare = same; else ambiguous. Where cycles contradict seconds the answer is ambiguous;
/// of a MIG slice there is none.
Speed compare_speed(const Measurement& now, const Measurement& before);

/// agrees: the measured time lies within the prediction's uncertainty; off: beyond; no_data: nothing
/// measured.
ModelAgreement compare_model(const Prediction& prediction, const Measurement& measurement);

}  // namespace moe::harness
