// What is a grouped GEMM whose weight rows hold one or two codes each, all others zero? A sum that no order,
// chain length or accumulator changes: the product of two codes has 8 bits, zeros add nothing, and two
// products are exact in the tensor core's 14 bits as long as neither reaches below the last of them. A correct
// kernel is off by the fp32 roundings of its factors alone. What is left shows scales, codes and weights that
// a kernel does not keep whole, and sums of two that it rounds before their scales multiply them.
#pragma once
#include <span>

#include "reference/grouped_sum.hpp"

namespace moe::reference {

/// Relative error of any correct result in front of the output rounding: 16 fp32 roundings. The two scales in
/// any association with the codes, the routing weight, a reciprocal of either scale taken twice, a chain
/// that is rescaled from block to block (a quotient of two scale products) and a sum of two are at most
/// twelve.
inline constexpr double kFactorError = 16 * 0x1p-24;

/// As grouped_sum, with kFactorError of the magnitudes as `bound` (plus the radii of `real`), and nothing
/// probable. Right for any weights: where several products of one chain (a k-block under block scales, else
/// all of K) are no multiples of the last bit that an accumulator is sure to keep,
///   2^(X - 13), X the exponent of the largest aligned product or of the sum of magnitudes, if that is larger,
/// `bound` grows by what m of them can lose, 3 (m - 1) 2^(X - 13): every product once, every partial sum once
/// as a term and once as a result. Of `real` activations, whose codes are not known, it always does.
GroupedSum sparse_sum(const GroupedGemm& gemm, std::span<const GemmRow> rows, const RealActivations* real,
                      int threads);

}  // namespace moe::reference
