// How large do the partial sums of a chain become on their way, and which way do the cut terms pull? For a
// block of outputs at once: the real partial sums every kGrain products ("grains") and, from them, how far a
// correct FP8 wgmma chain may end from its real sum, but for a stated probability. Derivation and
// assumptions: reference/README.md, "The probable bound".
#pragma once
#include <cstdint>
#include <vector>

#include "reference/dgemm/dgemm.hpp"

namespace moe::reference {

/// Products between two looks at the partial sums; divides 128.
inline constexpr std::int64_t kGrain = 32;

class ChainWalk {
 public:
  ChainWalk() = default;
  /// `path` is one that this processor has.
  ChainWalk(std::int64_t rows, std::int64_t columns, double log_odds, DgemmPath path);

  bool on() const { return log_odds_ > 0; }
  /// Appends a grain to the open chain of `row`'s outputs: of each column the sum of the products and of
  /// their magnitudes (as aligned), the largest magnitude of the row's codes and of each column's, in this
  /// grain or a longer stretch.
  void step(std::int64_t row, const double* sum, const double* size, double row_largest,
            const double* column_largest);
  /// Of any stretch of the open chain, all rows and columns: positive products less negative ones.
  void count_signs(const double* signs);
  /// Ends the open chain, of `products` products in `grains` grains; `spread` [rows * columns] (or null) is
  /// what the real sum itself may be off by.
  void close(std::int64_t products, std::int64_t grains, const double* spread);

  struct Reach {
    double below = 0, above = 0;
  };
  /// How far under and over its real sum output `i` may end; infinite where the cuts of a chain may change
  /// its partial sums so much that nothing is said.
  Reach reach(std::size_t i) const;

  // The open chain, one element an output. c: partial sum; middle: of a grain, the mean of the partial sums
  // before and behind it; height: how far from there a partial sum inside the grain, or a term, can be.
  struct Open {
    std::vector<float> c, middle, middle_most, height_most, largest, signs, signs_low, signs_high;
    std::vector<double> middle_square, height_square;
  };
  // All chains so far. pull: sum of E * signs, a walk with its extremes.
  struct Closed {
    std::vector<double> variance, drift, most, pull, pull_low, pull_high;
  };

 private:
  std::int64_t columns_ = 0;
  double log_odds_ = 0;
  DgemmPath path_ = DgemmPath::baseline;
  Open open_;
  Closed closed_;
};

}  // namespace moe::reference
