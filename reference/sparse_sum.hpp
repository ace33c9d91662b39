// What is a grouped GEMM whose weight rows hold one code each, all others zero? One scaled product an output:
// no order of sums, chain length or accumulator matters (the product of two codes has 8 bits, and zeros add
// nothing), so that a correct kernel is off by the fp32 roundings of its factors alone. What is left shows
// scales, codes and weights that a kernel does not keep whole.
#pragma once
#include <span>

#include "reference/grouped_sum.hpp"

namespace moe::reference {

/// Relative error of any correct result in front of the output rounding: 16 fp32 roundings. The two scales in
/// any association with the codes, the routing weight, a reciprocal of either scale taken twice, and a chain
/// that is rescaled from block to block (a quotient of two scale products) are at most ten.
inline constexpr double kFactorError = 16 * 0x1p-24;

/// As grouped_sum, with kFactorError of the magnitudes as `bound` (plus the radii of `real`), and nothing
/// probable. Rows of weights may hold several codes, but the bound is right only for sums that are exact.
GroupedSum sparse_sum(const GroupedGemm& gemm, std::span<const GemmRow> rows, const RealActivations* real,
                      int threads);

}  // namespace moe::reference
