// What does one dot-product unit of a tensor core compute? d = c + sum of n products in one fused sum: exact
// products, one common alignment, truncation of what lies below it, an exact addition, one final cut.
//
//   1. NaN anywhere, infinity * 0, or infinities of both signs: NaN, always the pattern 0x7FFFFFFF (f16:
//   0x7FFF).
//      Otherwise any infinity is the result.
//   2. e_k = exp(a_k) + exp(b_k), the significand product is exact and not renormalised (it lies in [0, 4)).
//   3. emax = the largest exponent among the non-zero products and the non-zero accumulator.
//   4. Every term loses its bits below 2^(emax - F), toward zero (sign and magnitude: -x loses what x loses).
//   5. The terms are added exactly: their order does not matter. A zero sum is +0.
//   6. f32: truncated toward zero to `f32_fraction` fraction bits. f16: rounded once, to nearest even;
//   overflow gives
//      infinity, a sum that rounds to zero is +0 too (the H200: fixtures/golden). Subnormal results are kept.
//
// Xie et al., "MMA-Sim" (arXiv 2511.10909), call this T-FDPA; Khattak and Mikaitis, "Accurate models of
// NVIDIA tensor cores" (arXiv 2512.07004), give the same parameters for the H100. Ours to check:
// fixtures/golden, from an H200.
#pragma once
#include <cstdint>
#include <span>

#include "reference/tensor_core/number.hpp"

namespace moe::reference {

/// What tells one unit from another.
struct DotUnit {
  int kept_bits;     // F: fraction bits kept below the largest exponent
  int f32_fraction;  // fraction bits of an f32 result
};
/// FP8 wgmma of Hopper: 32 products, an f32 result is E8M13 in a 32-bit register.
inline constexpr DotUnit kFp8Unit{13, 13};
/// FP16 HMMA.16816 of Hopper: 16 products, full f32 result.
inline constexpr DotUnit kF16Unit{25, 23};

/// One element: a and b hold the same number of operands, in formats fa and fb; c and the result are bit
/// patterns of `accumulator` (f16 in the low half).
std::uint32_t fused_sum(const DotUnit& unit, const BinaryFormat& fa, std::span<const Number> a,
                        const BinaryFormat& fb, std::span<const Number> b, AccumulatorFormat accumulator,
                        std::uint32_t c);

/// sum * 2^lsb as f16, nearest even, never -0: what every f16 result goes through.
std::uint32_t round_to_f16(std::int64_t sum, int lsb);

}  // namespace moe::reference
