#include "harness/against/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/parallel.hpp"
#include "harness/against/contests.hpp"
#include "sim/naive.hpp"
#include "sim/predict.hpp"
#include "sim/predict_gemms.hpp"

namespace moe::harness {
namespace {

using Pairs = std::vector<std::pair<double, double>>;

/// Ranks from 1, ties share their mean.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0, end; i < order.size(); i = end) {
    for (end = i; end < order.size() && values[order[end]] == values[order[i]];) ++end;
    for (std::size_t j = i; j < end; ++j) rank[order[j]] = double(i + end + 1) / 2;
  }
  return rank;
}

double spearman(std::span<const std::pair<double, double>> pairs) {
  std::vector<double> a, b;
  for (const auto& [predicted, measured] : pairs) a.push_back(predicted), b.push_back(measured);
  a = ranks(a), b = ranks(b);
  const double mean = double(pairs.size() + 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double predicted_seconds(const MeasuredRow& row, const Hardware& base, double& uncertainty) {
  const Hardware hw = sim::under(base, row.conditions, sim::footprint_bytes(row.problem, row.load));
  const Prediction p = sim::predict(row.problem, row.choice, hw, row.load);
  uncertainty = p.uncertainty;
  double seconds = p.seconds;
  if (row.gemm_alone) {
    seconds = hw.graph_node_s;
    for (const auto& gemm : sim::predict_gemms(row.problem, row.choice, hw, row.load))
      seconds += gemm.time.seconds;
  }
  for (const Part& part : p.parts)
    if (part.name == row.without) seconds -= part.seconds + hw.graph_node_s;
  for (const sim::Elementwise& kernel : row.beside)
    seconds += sim::elementwise_seconds(hw, kernel) + hw.graph_node_s;
  return seconds;
}

double naive_seconds(const MeasuredRow& row) {
  const MoeShape& s = row.problem.shape;
  if (row.choice.kernel == sim::kCutlassDenseKernel)
    return sim::naive_dense_seconds(s.tokens, s.up_rows(), s.hidden);
  return sim::naive_moe_seconds(row.problem, row.load);
}

struct Collected {
  std::string name;
  Pairs model, naive;
  void add(const Scored& s) {
    model.emplace_back(s.predicted, s.row->seconds);
    naive.emplace_back(s.naive, s.row->seconds);
  }
};

void add_to(std::vector<Collected>& all, const std::string& name, const Scored& s) {
  auto found = std::find_if(all.begin(), all.end(), [&](const Collected& c) { return c.name == name; });
  if (found == all.end()) all.push_back({name, {}, {}}), found = all.end() - 1;
  found->add(s);
}

std::vector<Regime> regimes_of(std::vector<Collected> all) {
  std::sort(all.begin(), all.end(), [](const Collected& a, const Collected& b) { return a.name < b.name; });
  std::vector<Regime> regimes;
  for (const Collected& c : all) regimes.push_back({c.name, errors_of(c.model), errors_of(c.naive)});
  return regimes;
}

void sum_up(Score& score) {
  Collected all;
  std::vector<Collected> regimes, unscored;
  for (const Scored& s : score.rows) {
    if (!s.row->unscored.empty()) {
      add_to(unscored, s.row->unscored, s);
      continue;
    }
    all.add(s);
    for (const std::string& regime : s.row->regimes) add_to(regimes, regime, s);
  }
  score.model = errors_of(all.model);
  score.naive = errors_of(all.naive);
  score.regimes = regimes_of(std::move(regimes));
  score.unscored = regimes_of(std::move(unscored));
  score.picks = picks_of(score.rows);
  score.swaps = swaps_of(score.rows);
}

}  // namespace

Errors errors_of(std::span<const std::pair<double, double>> pairs) {
  Errors e;
  e.n = pairs.size();
  if (pairs.empty()) return e;
  std::vector<double> sizes;
  for (const auto& [predicted, measured] : pairs) {
    const double error = predicted / measured - 1;
    sizes.push_back(std::abs(error));
    e.bias += error / double(e.n);
    e.mean += std::abs(error) / double(e.n);
  }
  std::sort(sizes.begin(), sizes.end());
  const std::size_t n = e.n;
  e.median = n % 2 == 1 ? sizes[n / 2] : (sizes[n / 2 - 1] + sizes[n / 2]) / 2;
  e.p90 = sizes[std::size_t(std::ceil(0.9 * double(n))) - 1];  // nearest rank
  e.spearman = spearman(pairs);
  return e;
}

Score score(const MeasuredFile& file, const Hardware& hardware, int threads) {
  std::vector<Scored> rows(file.rows.size());
  std::vector<std::string> refused(file.rows.size());
  constexpr std::size_t kPiece = 64;
  parallel(std::int64_t((rows.size() + kPiece - 1) / kPiece), threads, [&](std::int64_t piece) {
    for (std::size_t i = std::size_t(piece) * kPiece, end = std::min(i + kPiece, rows.size()); i < end; ++i) {
      try {
        rows[i].predicted = predicted_seconds(file.rows[i], hardware, rows[i].uncertainty);
        rows[i].naive = naive_seconds(file.rows[i]);
        rows[i].row = &file.rows[i];
      } catch (const BadInput& e) {
        refused[i] = e.what();
      }
    }
  });
  Score score;
  score.layout = file.layout;
  score.total = file.total;
  auto skipped = file.skipped;
  for (const std::string& reason : refused)
    if (!reason.empty()) ++skipped[reason];
  score.skipped.assign(skipped.begin(), skipped.end());
  std::stable_sort(score.skipped.begin(), score.skipped.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const Scored& s : rows)
    if (s.row != nullptr) score.rows.push_back(s);
  sum_up(score);
  return score;
}

}  // namespace moe::harness
