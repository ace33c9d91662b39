#include "reference/tensor_core/instructions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/fused_sum.hpp"

namespace moe::reference {
namespace {

using NumberTable = std::array<Number, 256>;

NumberTable decode_all(Fp8 f) {
  NumberTable table;
  for (unsigned code = 0; code < 256; ++code) table[code] = decode(format_of(f), code);
  return table;
}

const NumberTable& numbers(Fp8 f) {
  static const NumberTable e4m3 = decode_all(Fp8::e4m3), e5m2 = decode_all(Fp8::e5m2);
  return f == Fp8::e4m3 ? e4m3 : e5m2;
}

// A NaN anywhere is the whole answer (fused_sum.hpp, 1.). It is looked for first, eight bytes at a time: rows
// that nobody owns are mostly NaN, and they would cost as much as a sum.

/// Whether one of `count` values, without its sign, is above `largest`, the last that is no NaN.
template <class Lane>
bool above(const Lane* values, std::size_t count, Lane largest) {
  constexpr std::uint64_t ones = ~std::uint64_t(0) / std::uint64_t(Lane(~Lane(0)));
  constexpr std::uint64_t signs = ones << (8 * sizeof(Lane) - 1);
  const std::uint64_t carry = ones * (std::uint64_t(Lane(~Lane(0)) >> 1) - largest);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < count; i += 8 / sizeof(Lane)) {
    std::uint64_t word;
    std::memcpy(&word, values + i, sizeof word);
    found |= (word & ~signs) + carry;
  }
  return (found & signs) != 0;
}
bool has_nan(Fp8 f, const std::uint8_t* codes) {
  return above<std::uint8_t>(codes, 32, f == Fp8::e4m3 ? 0x7E : 0x7C);
}
bool is_nan(AccumulatorFormat f, std::uint32_t c) {
  return f == AccumulatorFormat::f32 ? (c & 0x7FFFFFFFu) > 0x7F800000u : (c & 0x7FFFu) > 0x7C00u;
}
std::uint32_t nan_of(AccumulatorFormat f) { return f == AccumulatorFormat::f32 ? 0x7FFFFFFFu : 0x7FFFu; }

}  // namespace

std::uint32_t wgmma_k32(Fp8 fa, const std::uint8_t* a, Fp8 fb, const std::uint8_t* b, AccumulatorFormat acc,
                        std::uint32_t c) {
  if (is_nan(acc, c) || has_nan(fa, a) || has_nan(fb, b)) return nan_of(acc);
  const NumberTable &ta = numbers(fa), &tb = numbers(fb);
  Number x[32], y[32];
  for (int k = 0; k < 32; ++k) {
    x[k] = ta[a[k]];
    y[k] = tb[b[k]];
  }
  return fused_sum(kFp8Unit, format_of(fa), x, format_of(fb), y, acc, c);
}

std::uint32_t hmma_k16(const std::uint16_t* a, const std::uint16_t* b, AccumulatorFormat acc,
                       std::uint32_t c) {
  constexpr std::uint16_t infinity = 0x7C00;
  if (is_nan(acc, c) || above(a, 16, infinity) || above(b, 16, infinity)) return nan_of(acc);
  Number x[16], y[16];
  for (int k = 0; k < 16; ++k) {
    x[k] = decode(kF16, a[k]);
    y[k] = decode(kF16, b[k]);
  }
  return fused_sum(kF16Unit, kF16, x, kF16, y, acc, c);
}

std::uint16_t fp8_to_f16(Fp8 f, std::uint8_t code) {
  if (f == Fp8::e5m2) return std::uint16_t(code << 8);  // E5M2 is the upper half of an f16
  const Number x = decode(kE4M3, code);
  const std::uint16_t sign = std::uint16_t((code & 0x80u) << 8);
  if (x.kind == NumberKind::nan) return sign | 0x7FFFu;
  return sign | std::uint16_t(round_to_f16(std::int64_t(x.significand), x.exponent - kE4M3.fraction_bits));
}

std::uint32_t add_f16(std::uint32_t x, std::uint32_t y) {
  const Number a = decode(kF16, x), b = decode(kF16, y);
  const bool infinite_a = a.kind == NumberKind::infinite, infinite_b = b.kind == NumberKind::infinite;
  if (a.kind == NumberKind::nan || b.kind == NumberKind::nan) return 0x7FFFu;
  if (infinite_a && infinite_b) return a.negative == b.negative ? x : 0x7FFFu;
  if (infinite_a || infinite_b) return infinite_a ? x : y;
  // in units of 2^-24, the smallest subnormal, both are integers below 2^40
  const auto units = [](const Number& v) {
    const std::int64_t magnitude = std::int64_t(v.significand) << (v.exponent + 14);
    return v.negative ? -magnitude : magnitude;
  };
  const std::int64_t sum = units(a) + units(b);
  if (sum == 0 && a.negative && b.negative) return 0x8000u;
  return round_to_f16(sum, -24);
}

std::uint32_t mma_sync_fp8_k32(Fp8 fa, const std::uint8_t* a, Fp8 fb, const std::uint8_t* b,
                               AccumulatorFormat acc, std::uint32_t c) {
  std::uint32_t product = 0;
  for (int half = 0; half < 2; ++half) {
    std::uint16_t x[16], y[16];
    int n = 0;
    for (int k = 0; k < 32; ++k)
      if ((k >> 1 & 1) == half) {
        x[n] = fp8_to_f16(fa, a[k]);
        y[n++] = fp8_to_f16(fb, b[k]);
      }
    product = hmma_k16(x, y, acc, product);
  }
  if (acc == AccumulatorFormat::f16) return add_f16(c, product);
  const float sum = bits_float(c) + bits_float(product);
  return sum != sum ? 0x7FFFFFFFu : float_bits(sum);
}

}  // namespace moe::reference
