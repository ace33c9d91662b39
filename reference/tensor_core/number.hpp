// What does a tensor core see of an operand? Its kind, sign, significand and exponent, before any arithmetic.
#pragma once
#include <cstdint>

namespace moe::reference {

/// The 8-bit formats a wgmma or mma operand may have.
enum class Fp8 : std::uint8_t { e4m3, e5m2 };
/// The format of the accumulator C and of the result D.
enum class AccumulatorFormat : std::uint8_t { f32, f16 };

/// A binary format: bias = 2^(exponent_bits - 1) - 1. With `infinity` the top exponent is IEEE's (infinity,
/// NaN); without it only the all-ones pattern is NaN (E4M3, OCP 8-bit floating point specification 1.0, table
/// 1).
struct BinaryFormat {
  int exponent_bits, fraction_bits;
  bool infinity;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int min_exponent() const { return 1 - bias(); }
  constexpr int sign_shift() const { return exponent_bits + fraction_bits; }
};
inline constexpr BinaryFormat kE4M3{4, 3, false}, kE5M2{5, 2, true}, kF16{5, 10, true}, kF32{8, 23, true};

constexpr const BinaryFormat& format_of(Fp8 f) { return f == Fp8::e4m3 ? kE4M3 : kE5M2; }
constexpr const BinaryFormat& format_of(AccumulatorFormat f) {
  return f == AccumulatorFormat::f32 ? kF32 : kF16;
}

enum class NumberKind : std::uint8_t { zero, finite, infinite, nan };

/// value = (-1)^negative * significand * 2^(exponent - fraction_bits). Subnormals keep the format's minimum
/// exponent and an unnormalised significand: that is how the hardware aligns them.
struct Number {
  NumberKind kind = NumberKind::zero;
  bool negative = false;
  std::uint32_t significand = 0;
  int exponent = 0;
};

constexpr Number decode(const BinaryFormat& f, std::uint32_t bits) {
  const std::uint32_t fraction = bits & ((1u << f.fraction_bits) - 1);
  const std::uint32_t top = (1u << f.exponent_bits) - 1, field = (bits >> f.fraction_bits) & top;
  Number x;
  x.negative = (bits >> f.sign_shift()) & 1u;
  const bool all_ones = field == top && fraction == (1u << f.fraction_bits) - 1;
  if (f.infinity ? field == top : all_ones) {
    x.kind = f.infinity && fraction == 0 ? NumberKind::infinite : NumberKind::nan;
    return x;
  }
  x.significand = field != 0 ? fraction | (1u << f.fraction_bits) : fraction;
  x.exponent = field != 0 ? int(field) - f.bias() : f.min_exponent();
  x.kind = x.significand != 0 ? NumberKind::finite : NumberKind::zero;
  return x;
}

}  // namespace moe::reference
