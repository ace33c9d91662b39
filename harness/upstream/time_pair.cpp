#include "harness/upstream/time_pair.hpp"

#include <algorithm>
#include <optional>

#include "harness/compare_speed.hpp"

namespace moe::harness {
namespace {

/// All samples of one side. A clock that one round does not know is not known.
Measurement merged(std::span<const TimedRound> rounds, Measurement TimedRound::*side) {
  Measurement all = rounds.front().*side;
  double clocks = 0;
  all.seconds.clear();
  all.stages.clear();  // stages of different rounds are not one sample each
  for (const TimedRound& round : rounds) {
    const Measurement& m = round.*side;
    all.seconds.insert(all.seconds.end(), m.seconds.begin(), m.seconds.end());
    clocks = m.sm_clock_hz > 0 && clocks >= 0 ? clocks + m.sm_clock_hz : -1;
  }
  all.sm_clock_hz = clocks > 0 ? clocks / double(rounds.size()) : 0;
  return all;
}

Speed word_of(const RatioInterval& r) {
  if (r.low > 1 + kSameShare) return Speed::slow;
  if (r.high < 1 - kSameShare) return Speed::fast;
  if (r.low >= 1 - kSameShare && r.high <= 1 + kSameShare) return Speed::same;
  return Speed::ambiguous;
}

/// A word of the samples that the interval contradicts is none.
bool bears_out(Speed word, const RatioInterval& r) {
  if (word == Speed::slow) return r.low > 1;
  if (word == Speed::fast) return r.high < 1;
  return r.low <= 1 + kSameShare && r.high >= 1 - kSameShare && r.high - r.low <= 4 * kSameShare;
}

bool knows_clocks(std::span<const TimedRound> rounds) {
  return std::all_of(rounds.begin(), rounds.end(),
                     [](const TimedRound& r) { return r.before.sm_clock_hz > 0 && r.after.sm_clock_hz > 0; });
}

/// One round; empty where a side gives no times, with the side's name.
std::optional<TimedRound> run_round(const std::function<Measurement()>& before,
                                    const std::function<Measurement()>& after, bool after_first,
                                    std::string& why_none) {
  TimedRound round;
  if (after_first) round.after = after();
  round.before = before();
  if (!after_first && !round.before.seconds.empty()) round.after = after();
  if (!round.before.seconds.empty() && !round.after.seconds.empty()) return round;
  why_none = round.before.seconds.empty() ? "before" : "after";
  return std::nullopt;
}

bool settled(const std::vector<Speed>& words) {
  const Speed last = words.back();
  if (words.size() == 1) return last == Speed::same;
  return last != Speed::ambiguous && last == words[words.size() - 2];
}

}  // namespace

RatioInterval ratio_interval(std::vector<double> ratios) {
  RatioInterval interval;
  if (ratios.empty()) return interval;
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  interval.median = n % 2 == 1 ? ratios[n / 2] : (ratios[n / 2 - 1] + ratios[n / 2]) / 2;
  // Outside [x(k), x(n-1-k)] lies the median with 2 * P(Binomial(n, 1/2) <= k).
  double term = 1, below = 0;
  for (std::size_t i = 0; i < n; ++i) term /= 2;
  for (std::size_t k = 0; k < n / 2; ++k) {
    below += term;
    term = term * double(n - k) / double(k + 1);
    if (2 * below > 0.05) break;
    interval.low = ratios[k];
    interval.high = ratios[n - 1 - k];
  }
  return interval;
}

std::vector<double> ratios_of(std::span<const TimedRound> rounds, bool in_cycles) {
  std::vector<double> ratios;
  for (const TimedRound& r : rounds) {
    const double clocks = in_cycles ? r.after.sm_clock_hz / r.before.sm_clock_hz : 1;
    ratios.push_back(r.after.median() / r.before.median() * clocks);
  }
  return ratios;
}

Speed judge_rounds(std::span<const TimedRound> rounds) {
  if (rounds.empty()) return Speed::no_data;
  const Speed by_samples =
      compare_speed(merged(rounds, &TimedRound::after), merged(rounds, &TimedRound::before));
  const RatioInterval by_time = ratio_interval(ratios_of(rounds, false));
  const Speed word = by_samples == Speed::ambiguous   ? word_of(by_time)
                     : bears_out(by_samples, by_time) ? by_samples
                                                      : Speed::ambiguous;
  if (word == Speed::same || word == Speed::ambiguous || !knows_clocks(rounds)) return word;
  return bears_out(word, ratio_interval(ratios_of(rounds, true))) ? word : Speed::ambiguous;
}

PairTiming time_pair(const std::function<Measurement()>& before, const std::function<Measurement()>& after) {
  PairTiming timing;
  std::vector<TimedRound> rounds;
  std::vector<Speed> words;
  do {
    for (int i = 0; i < kRoundsPerBatch; ++i) {
      const auto round = run_round(before, after, i % 2 == 1, timing.why_none);
      if (!round) return timing;
      rounds.push_back(*round);
    }
    words.push_back(judge_rounds(std::span(rounds).last(kRoundsPerBatch)));
  } while (!settled(words) && int(words.size()) < kMostBatches);
  timing.before = merged(rounds, &TimedRound::before);
  timing.after = merged(rounds, &TimedRound::after);
  timing.ratio = ratio_interval(ratios_of(rounds, false));
  timing.word = settled(words) ? words.back() : Speed::ambiguous;
  timing.rounds = int(rounds.size());
  timing.batches = int(words.size());
  return timing;
}

}  // namespace moe::harness
