// The loops over outputs are compiled once per instruction set, by attribute: nothing here inlines code of
// the standard library.
#include "reference/chain_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moe::reference {
namespace {

constexpr double kCut = 0x1p-13;        // a cut term loses less than this part of E
constexpr float kFloat = 1 + 0x1p-12f;  // roundings of this file's own float sums

[[gnu::always_inline]] inline float larger(float a, float b) { return a > b ? a : b; }
[[gnu::always_inline]] inline double larger(double a, double b) { return a > b ? a : b; }
[[gnu::always_inline]] inline double smaller(double a, double b) { return a < b ? a : b; }
[[gnu::always_inline]] inline float smaller(float a, float b) { return a < b ? a : b; }

struct StepTask {
  std::int64_t first, columns;
  const double *sum, *size, *column_largest;
  double row_largest;
  ChainWalk::Open& open;
};

[[gnu::always_inline]] inline void step_body(const StepTask& t) {
  const double* __restrict sum = t.sum;
  const double* __restrict size = t.size;
  const double* __restrict column_largest = t.column_largest;
  float* __restrict c = t.open.c.data() + t.first;
  float* __restrict middle = t.open.middle.data() + t.first;
  float* __restrict middle_most = t.open.middle_most.data() + t.first;
  float* __restrict height_most = t.open.height_most.data() + t.first;
  float* __restrict largest = t.open.largest.data() + t.first;
  double* __restrict middle_square = t.open.middle_square.data() + t.first;
  double* __restrict height_square = t.open.height_square.data() + t.first;
  const double row_largest = t.row_largest;
  for (std::int64_t j = 0; j < t.columns; ++j) {
    const float product = float(smaller(size[j], row_largest * column_largest[j]));
    const float s = float(sum[j]), m = c[j] + 0.5f * s, h = larger(0.5f * float(size[j]), product);
    c[j] += s;
    middle[j] += m;
    middle_square[j] += double(m) * double(m);
    height_square[j] += double(h) * double(h);
    middle_most[j] = larger(middle_most[j], __builtin_fabsf(m));
    height_most[j] = larger(height_most[j], h);
    largest[j] = larger(largest[j], product);
  }
}

struct CloseTask {
  std::int64_t outputs;
  double products, grains, log_odds;
  const double* spread;
  ChainWalk::Open& open;
  ChainWalk::Closed& closed;
};

// What the cuts of a whole chain may add up to, as a part of E, but for the bias of its signs; `most` / E is
// at most most_share. Larger than deviation() and free of its root.
[[gnu::always_inline]] inline double loss_of(const CloseTask& t, double root, double most_share,
                                             double signs) {
  return kCut * (root + most_share * t.log_odds * (4.0 / 3) + signs + t.products / 128 + 2);
}

[[gnu::always_inline]] inline void close_body(const CloseTask& t) {
  const float* __restrict c = t.open.c.data();
  const float* __restrict middle = t.open.middle.data();
  const float* __restrict middle_most = t.open.middle_most.data();
  const float* __restrict height_most = t.open.height_most.data();
  const float* __restrict largest = t.open.largest.data();
  const float* __restrict signs = t.open.signs.data();
  const float* __restrict signs_low = t.open.signs_low.data();
  const float* __restrict signs_high = t.open.signs_high.data();
  const double* __restrict middle_square = t.open.middle_square.data();
  const double* __restrict height_square = t.open.height_square.data();
  double* __restrict variance = t.closed.variance.data();
  double* __restrict drift = t.closed.drift.data();
  double* __restrict most_of_all = t.closed.most.data();
  double* __restrict pull = t.closed.pull.data();
  double* __restrict pull_low = t.closed.pull_low.data();
  double* __restrict pull_high = t.closed.pull_high.data();
  const double root = __builtin_sqrt(2 * t.log_odds * t.products / 3), per_grain = 1 / t.grains;
  for (std::int64_t i = 0; i < t.outputs; ++i) {
    const double s = double(c[i]), spread = t.spread ? t.spread[i] : 0;
    const double upward = middle_square[i], downward = upward - 2 * s * double(middle[i]) + t.grains * s * s;
    double e = __builtin_sqrt(larger(larger(upward, downward), 0.0) * per_grain) +
               __builtin_sqrt(height_square[i] * per_grain) + spread;
    double most = __builtin_fabs(s) + double(middle_most[i]) + double(height_most[i]) + spread;
    // The cuts themselves move the partial sums: by at most `loss` of E, so that E grows to e / (1 - loss).
    const double loss =
        loss_of(t, root, most / larger(e, 0x1p-1000), double(signs_high[i]) - double(signs_low[i]));
    const double grown = loss < 0.5 ? double(kFloat) / (1 - smaller(loss, 0.5)) : __builtin_inf();
    e = e > 0 ? e * grown : 0.0, most = e > 0 ? most * grown : 0.0;
    variance[i] += t.products / 3 * e * e;
    most_of_all[i] = larger(most_of_all[i], most);
    drift[i] += t.products / 128 * e + t.products / 64 * double(largest[i]);
    const double at = pull[i];
    pull_low[i] = smaller(pull_low[i], at + e * double(signs_low[i]));
    pull_high[i] = larger(pull_high[i], at + e * double(signs_high[i]));
    pull[i] = at + e * double(signs[i]);
  }
}

[[gnu::target("avx2")]] void step_avx2(const StepTask& t) { step_body(t); }
[[gnu::target("avx2")]] void close_avx2(const CloseTask& t) { close_body(t); }
[[gnu::target("avx512f,avx512vl,avx512dq")]] void step_avx512(const StepTask& t) { step_body(t); }
[[gnu::target("avx512f,avx512vl,avx512dq")]] void close_avx512(const CloseTask& t) { close_body(t); }
void step_baseline(const StepTask& t) { step_body(t); }
void close_baseline(const CloseTask& t) { close_body(t); }

// Freedman's inequality (Bernstein's for martingales): the sum of terms whose size is at most `most` and
// whose variances add up to `variance` exceeds this with a probability of at most exp(-log_odds).
double deviation(double variance, double most, double log_odds) {
  const double linear = most * log_odds / 3;
  return linear + std::sqrt(linear * linear + 2 * variance * log_odds);
}

}  // namespace

ChainWalk::ChainWalk(std::int64_t rows, std::int64_t columns, double log_odds, DgemmPath path)
    : columns_(columns), log_odds_(log_odds), path_(path) {
  if (!on()) return;
  const std::size_t size = std::size_t(rows * columns);
  for (auto* v : {&open_.c, &open_.middle, &open_.middle_most, &open_.height_most, &open_.largest,
                  &open_.signs, &open_.signs_low, &open_.signs_high})
    v->assign(size, 0);
  for (auto* v : {&open_.middle_square, &open_.height_square, &closed_.variance, &closed_.drift,
                  &closed_.most, &closed_.pull, &closed_.pull_low, &closed_.pull_high})
    v->assign(size, 0);
}

void ChainWalk::step(std::int64_t row, const double* sum, const double* size, double row_largest,
                     const double* column_largest) {
  const StepTask task{row * columns_, columns_, sum, size, column_largest, row_largest, open_};
  if (path_ == DgemmPath::avx512) return step_avx512(task);
  if (path_ == DgemmPath::avx2) return step_avx2(task);
  step_baseline(task);
}

void ChainWalk::count_signs(const double* signs) {
  for (std::size_t i = 0; i < open_.signs.size(); ++i) {
    const float now = open_.signs[i] + float(signs[i]);
    open_.signs[i] = now;
    open_.signs_low[i] = smaller(open_.signs_low[i], now);
    open_.signs_high[i] = larger(open_.signs_high[i], now);
  }
}

void ChainWalk::close(std::int64_t products, std::int64_t grains, const double* spread) {
  const CloseTask task{
      std::int64_t(open_.c.size()), double(products), double(grains), log_odds_, spread, open_, closed_};
  if (path_ == DgemmPath::avx512)
    close_avx512(task);
  else if (path_ == DgemmPath::avx2)
    close_avx2(task);
  else
    close_baseline(task);
  for (auto* v : {&open_.c, &open_.middle, &open_.middle_most, &open_.height_most, &open_.largest,
                  &open_.signs, &open_.signs_low, &open_.signs_high})
    std::fill(v->begin(), v->end(), 0.0f);
  for (auto* v : {&open_.middle_square, &open_.height_square}) std::fill(v->begin(), v->end(), 0.0);
}

ChainWalk::Reach ChainWalk::reach(std::size_t i) const {
  if (!std::isfinite(closed_.variance[i])) {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    return {kFar, kFar};
  }
  const double both = deviation(closed_.variance[i], 2 * closed_.most[i], log_odds_) + closed_.drift[i];
  // Positive terms that are cut pull the sum down, by what E does while they come: rising or falling.
  const double now = closed_.pull[i], low = closed_.pull_low[i], high = closed_.pull_high[i];
  const double down = larger(high, now - low), up = larger(-low, high - now);
  return {kCut * (both + down), kCut * (both + up)};
}

}  // namespace moe::reference
