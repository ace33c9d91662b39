#include "reference/tensor_core/fused_sum.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace moe::reference {
namespace {

struct Bits {
  std::uint32_t sign, infinity, nan;
};
Bits special_bits(AccumulatorFormat f) {
  return f == AccumulatorFormat::f32 ? Bits{0x80000000u, 0x7F800000u, 0x7FFFFFFFu}
                                     : Bits{0x8000u, 0x7C00u, 0x7FFFu};
}

/// One addend: magnitude = significand * 2^(exponent - fraction_bits).
struct Term {
  std::uint64_t significand;
  int exponent, fraction_bits;
  bool negative;
};

/// In units of 2^lsb, bits below cut off toward zero.
std::int64_t align(const Term& t, int lsb) {
  if (t.significand == 0) return 0;  // takes no part in the alignment, so that its exponent may be any
  const int shift = t.exponent - t.fraction_bits - lsb;
  std::uint64_t magnitude = 0;
  if (shift >= 0) magnitude = t.significand << shift;
  if (shift < 0 && shift > -64) magnitude = t.significand >> -shift;
  return t.negative ? -std::int64_t(magnitude) : std::int64_t(magnitude);
}

/// sum * 2^lsb as f32 with `fraction` fraction bits, toward zero. Finite FP8 and FP16 operands cannot
/// overflow f32.
std::uint32_t truncate_to_f32(std::int64_t sum, int lsb, int fraction) {
  if (sum == 0) return 0;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  const std::uint64_t magnitude = sum < 0 ? std::uint64_t(-sum) : std::uint64_t(sum);
  const int exponent = std::max(int(std::bit_width(magnitude)) - 1 + lsb, -126);
  const int drop = exponent - fraction - lsb;
  const std::uint64_t kept = drop > 0 ? magnitude >> drop : magnitude << -drop;
  const std::uint32_t significand = std::uint32_t(kept) << (23 - fraction);
  const std::uint32_t field = significand >> 23 ? std::uint32_t(exponent + 127) : 0u;
  return sign | field << 23 | (significand & 0x7FFFFFu);
}

/// The infinities and NaNs of a sum, while its terms are collected.
struct Specials {
  bool nan = false, plus = false, minus = false;
  void infinity(bool negative) { (negative ? minus : plus) = true; }
};

void add_product(const Number& a, const Number& b, Specials& s) {
  const NumberKind high = std::max(a.kind, b.kind), low = std::min(a.kind, b.kind);
  if (high == NumberKind::nan || (high == NumberKind::infinite && low == NumberKind::zero)) s.nan = true;
  if (high == NumberKind::infinite && low != NumberKind::zero) s.infinity(a.negative != b.negative);
}

}  // namespace

std::uint32_t round_to_f16(std::int64_t sum, int lsb) {
  if (sum == 0) return 0;
  const std::uint32_t sign = sum < 0 ? 0x8000u : 0u;
  const std::uint64_t magnitude = sum < 0 ? std::uint64_t(-sum) : std::uint64_t(sum);
  const int exponent = std::max(int(std::bit_width(magnitude)) - 1 + lsb, -14);
  const int drop = exponent - 10 - lsb;
  if (drop >= 64) return 0;
  std::uint64_t kept = drop > 0 ? magnitude >> drop : magnitude << -drop;
  if (drop > 0) {
    const std::uint64_t rest = magnitude & ((std::uint64_t(1) << drop) - 1), half = std::uint64_t(1)
                                                                                    << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  if (kept == 0) return 0;  // a sum too small for f16 is +0 whatever its sign
  // a carry out of the fraction moves into the exponent field by itself; field 0 holds the subnormals
  const std::uint64_t bits = (std::uint64_t(exponent + 14) << 10) + kept;
  return sign | std::uint32_t(std::min<std::uint64_t>(bits, 0x7C00u));
}

std::uint32_t fused_sum(const DotUnit& unit, const BinaryFormat& fa, std::span<const Number> a,
                        const BinaryFormat& fb, std::span<const Number> b, AccumulatorFormat accumulator,
                        std::uint32_t c) {
  assert(a.size() == b.size() && a.size() <= 32);
  const BinaryFormat& fc = format_of(accumulator);
  const Bits bits = special_bits(accumulator);
  const Number acc = decode(fc, c);

  Specials specials;
  specials.nan = acc.kind == NumberKind::nan;
  if (acc.kind == NumberKind::infinite) specials.infinity(acc.negative);
  for (std::size_t k = 0; k < a.size(); ++k) add_product(a[k], b[k], specials);
  if (specials.nan || (specials.plus && specials.minus)) return bits.nan;
  if (specials.plus || specials.minus) return bits.infinity | (specials.minus ? bits.sign : 0u);

  Term terms[33];
  int n = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    terms[n++] = Term{std::uint64_t(a[k].significand) * b[k].significand, a[k].exponent + b[k].exponent,
                      fa.fraction_bits + fb.fraction_bits, a[k].negative != b[k].negative};
  terms[n++] = Term{acc.significand, acc.exponent, fc.fraction_bits, acc.negative};

  bool any = false;
  int emax = 0;
  for (int i = 0; i < n; ++i)
    if (terms[i].significand != 0) {
      emax = any ? std::max(emax, terms[i].exponent) : terms[i].exponent;
      any = true;
    }
  if (!any) return 0;

  const int lsb = emax - unit.kept_bits;
  std::int64_t sum = 0;
  for (int i = 0; i < n; ++i) sum += align(terms[i], lsb);
  return accumulator == AccumulatorFormat::f32 ? truncate_to_f32(sum, lsb, unit.f32_fraction)
                                               : round_to_f16(sum, lsb);
}

}  // namespace moe::reference
