// What are the real sums of a grouped GEMM, and how far may a correct kernel's accumulator be from them?
// Doubles for a chosen list of rows; only the experts of those rows are read.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/dgemm/dgemm.hpp"
#include "reference/operands.hpp"

namespace moe::reference {

/// Activations that are not codes: real numbers (radius empty), or intervals center +- radius, [rows, k];
/// `aligned` [rows, ceil(k/128)] is the least magnitude at which a nonzero element may be aligned (2^-6 times
/// its scale). The probable bound takes the elements' places in their intervals as independent of the
/// weights' signs. GemmRow::act counts rows of these arrays.
struct RealActivations {
  std::int64_t k = 0;
  std::vector<double> center, radius, aligned;
};

struct GroupedSum {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> value;         // [rows, columns]: (sum + bias) * row weight, no rounding but double's
  std::vector<double> bound;         // same shape; empty when no bound was asked for
  std::vector<double> below, above;  // the probable bound, a distance to each side, never wider than `bound`;
                                     // empty where AccumulationBound has none
  std::vector<double> typical;  // beside them: the rms that the sum would have if its products had random
                                // signs, pi/2 A / sqrt(k) (exact for products of two normal factors)
};

struct SumOptions {
  std::optional<AccumulationBound> bound;
  int threads = 1;
  const DgemmKernels* kernels = nullptr;  // null: the fastest of this processor
};

/// Row i of the result is rows[i]; a row with expert -1 is zero with bound zero. `real` null: gemm.a's codes.
GroupedSum grouped_sum(const GroupedGemm& gemm, std::span<const GemmRow> rows, const RealActivations* real,
                       const SumOptions& options);

}  // namespace moe::reference
