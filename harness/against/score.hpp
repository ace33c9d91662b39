// How well does the model predict times that others measured? Relative errors over all scored rows and by
// regime, beside those of the naive tile model; for tiles whether it picks the fast ones; for the operand
// order whether it knows the gain. Pure: rows and a card in, figures out.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/against/rows.hpp"

namespace moe::harness {

struct Scored {
  const MeasuredRow* row = nullptr;
  double predicted = 0, naive = 0, uncertainty = 0;  // seconds, seconds, relative
};

/// Predicted / measured - 1 over `n` rows: its absolute mean, median and 90th percentile, its mean (bias),
/// and Spearman's rank correlation of the times (ties share their mean rank).
struct Errors {
  std::size_t n = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0, spearman = 0;
};
Errors errors_of(std::span<const std::pair<double, double>> predicted_and_measured);

struct Regime {
  std::string name;
  Errors model, naive;
};

/// Contests: problems measured in several tiles. Fastest measured time / time of the tile that was picked,
/// geometric means: of the predicted best, of the best among the predicted best four, and the worst of the
/// predicted best.
struct Picks {
  std::size_t contests = 0;
  double first = 0, of_four = 0, worst_first = 0;
};

/// Pairs that differ in the operand order alone. Gain = normal / swapped - 1, errors in points. `constant` is
/// the best constant, chosen with the measured gains known. Balanced accuracy of "swap is faster": mean of
/// the shares right among the pairs where it is and where it is not; a constant has 0.5. The rule says the
/// best gain of its pairs below 32 rows an expert, none above. The model decides where its gain exceeds its
/// width and says "measure" elsewhere.
struct Swaps {
  std::string name;
  std::size_t pairs = 0, decided = 0, decided_right = 0;
  double mean_gain = 0, model_error = 0, constant_error = 0, rule_error = 0;
  double decided_accuracy = 0;                   // among the decided pairs
  double model_accuracy = 0, rule_accuracy = 0;  // rule: swap below 32 rows an active expert
};

struct Score {
  std::string layout;
  std::size_t total = 0;
  std::vector<std::pair<std::string, int>> skipped;  // reason -> rows, most first
  Errors model, naive;
  std::vector<Regime> regimes, unscored;
  std::optional<Picks> picks;
  std::vector<Swaps> swaps;
  std::vector<Scored> rows;  // in the file's order, unscored ones too
};

/// Predicts every row, on `threads` threads (0 = all). Rows that the model refuses are skipped with its
/// reason.
Score score(const MeasuredFile& file, const Hardware& hardware, int threads);

std::string score_table(const Score&, const std::string& file, const std::string& hardware);
std::string score_json(const Score&, const std::string& file, const std::string& hardware);
/// One row a prediction: line, scored, measured, predicted and naive seconds, choice, regimes.
std::string score_csv(const Score&);

}  // namespace moe::harness
