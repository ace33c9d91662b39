// Is one of two kernels faster? They are timed in turns (A B, B A, ..), so that what drifts drifts for both;
// each round gives one ratio. A gain or a loss counts when two batches of rounds in a row say so.
#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fixtures/problem/measurement.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

struct TimedRound {
  Measurement before, after;
};

/// The median of some ratios, and an interval that holds the true median with a probability of at least 95 %
/// whatever their distribution: order statistics, by the binomial distribution. Fewer than 6 give [0, inf].
struct RatioInterval {
  double low = 0, median = 0, high = std::numeric_limits<double>::infinity();
};
RatioInterval ratio_interval(std::vector<double> ratios);

/// after / before of each round's medians: above 1 = after is slower. `in_cycles`: times the SM clocks.
std::vector<double> ratios_of(std::span<const TimedRound> rounds, bool in_cycles);

/// One word for some rounds: compare_speed over all samples, which the interval of the ratios must bear out;
/// where samples overlap only because both scatter, the interval decides. Where clocks are known the ratio in
/// cycles must say the same.
Speed judge_rounds(std::span<const TimedRound> rounds);

struct PairTiming {
  Measurement before, after;  // all samples of all rounds
  RatioInterval ratio;        // over all rounds
  Speed word = Speed::no_data;
  int rounds = 0, batches = 0;
  std::string why_none;  // of no_data: which side gives no times
};

inline constexpr int kRoundsPerBatch = 6;  // the fewest whose extremes hold the median with 95 %
inline constexpr int kMostBatches = 4;

/// `before` and `after` measure their kernel once, with a share of a round's samples; one that cannot gives
/// no seconds. `same` in the first batch ends it, else two batches in a row must give one word; after
/// kMostBatches without that it is ambiguous.
PairTiming time_pair(const std::function<Measurement()>& before, const std::function<Measurement()>& after);

}  // namespace moe::harness
