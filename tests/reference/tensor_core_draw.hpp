// Which operands try a tensor core hard? Seeded draws: ordinary data, all bit patterns, sparse and subnormal
// data, wide exponent spreads, cancellation, and accumulators from nothing to infinity.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/number.hpp"

namespace moe::reference::draw {

using Rng = std::mt19937_64;
inline constexpr int kKinds = 9;

inline std::uint8_t finite(Rng& g, Fp8 f) {
  const std::uint8_t code = std::uint8_t(g());
  return (code & 0x7F) >= (f == Fp8::e4m3 ? 0x7F : 0x7C) ? code & 0x80 : code;
}
inline std::uint8_t encode(Fp8 f, float x) { return f == Fp8::e4m3 ? encode_e4m3(x) : encode_e5m2(x); }

/// One code of a kind of data.
inline std::uint8_t code(Rng& g, Fp8 f, int kind) {
  std::normal_distribution<float> normal(0, 1);
  switch (kind) {
    case 0:
      return encode(f, 100 * normal(g));
    case 1:
      return finite(g, f);
    case 2:
      return std::uint8_t(g());  // NaN and infinity too
    case 3:
      return g() % 40 ? std::uint8_t(g()) & 0x80 : std::uint8_t(g());  // nearly all zero, of both signs
    case 4:
      return std::uint8_t(g() & 0x83);  // subnormals and zeros
    case 5:
      return encode(f, std::ldexp(normal(g), int(g() % 30) - 18));  // wide spread
    case 6:
      return f == Fp8::e4m3 ? 0x7E ^ (g() & 0x80) : 0x7B ^ (g() & 0x80);  // the largest, cancelling
    case 7:
      return g() % 16 ? encode(f, normal(g)) : encode(f, 400 * normal(g));
    default:
      return 0x80;
  }
}
inline std::vector<std::uint8_t> codes(Rng& g, Fp8 f, int kind, std::size_t n) {
  std::vector<std::uint8_t> v(n);
  for (auto& c : v) c = code(g, f, kind);
  return v;
}

/// An f32 accumulator: zero of both signs, any pattern, E8M13 values, subnormals, ordinary sizes, huge.
inline float accumulator(Rng& g) {
  switch (g() % 8) {
    case 0:
      return g() % 2 ? 0.0f : -0.0f;
    case 1:
      return bits_float(std::uint32_t(g()));
    case 2:
      return bits_float(float_bits(std::ldexp(float(std::int64_t(g())), -63 + int(g() % 20))) & ~0x3FFu);
    case 3:
      return bits_float(std::uint32_t(g()) & 0x807FFFFFu);
    case 4:
      return bits_float((std::uint32_t(g()) & 0x80FFFFFFu) | 0x7F000000u);
    case 5:
      return std::ldexp(float(std::int64_t(g())), -63 - int(g() % 80));
    default:
      return std::ldexp(float(std::int64_t(g())), -63 + int(g() % 30));
  }
}
inline std::uint16_t accumulator_f16(Rng& g) {
  const std::uint16_t bits = std::uint16_t(g());
  switch (g() % 4) {
    case 0:
      return bits & 0x8000;
    case 1:
      return bits;
    case 2:
      return bits & 0x83FF;
    default:
      return (bits & 0x8FFF) | 0x3000;
  }
}

/// An f16 operand: codes of both FP8 formats, any pattern, subnormals, near one, largest.
inline std::uint16_t f16(Rng& g, int kind) {
  const std::uint16_t bits = std::uint16_t(g());
  switch (kind % 7) {
    case 0:
      return std::uint16_t((bits & 0x8000) | 0x3C00 | (bits & 0x3FF));
    case 1:
      return bits;
    case 2:
      return (bits & 0x7C00) == 0x7C00 ? bits & 0x8000 : bits;
    case 3:
      return bits & 0x83FF;
    case 4:
      return g() % 8 ? bits & 0x8000 : bits & 0xBFFF;
    case 5:
      return std::uint16_t((bits & 0x8000) | 0x7BFF);
    default:
      return std::uint16_t((bits & 0x8000) | 0x7B00 | (bits & 0xFF));
  }
}

}  // namespace moe::reference::draw
