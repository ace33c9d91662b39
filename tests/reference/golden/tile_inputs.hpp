// On which operands are tensor cores recorded and compared? Tiles a[64], b[256] of 32 bytes a row (32 FP8 or
// 16 f16) and c[64][256], each a pure function of (seed, arithmetic, kind, number): nothing but outputs has
// to be stored. All in integers, so that every machine draws the same bytes; Philox gives 64 bits an element.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fixtures/problem/philox.hpp"
#include "reference/tensor_core/number.hpp"

namespace moe::test {

using reference::AccumulatorFormat;
using reference::BinaryFormat;

inline constexpr int kRows = 64, kColumns = 256, kRowBytes = 32;

/// What a tile tries; the order is that of the stored outputs.
enum class Kind {
  uniform,       // any finite operand, any finite accumulator
  linear,        // operands as of a uniform distribution, accumulators of the size of the sum
  wide,          // a few large operands among small ones: most bits are cut
  cancelling,    // products in pairs of both signs, one pair left over
  c_cancels,     // the accumulator is minus the sum, but for one bit of its fraction
  one_sign,      // what shows a bias
  large_c,       // the accumulator is above the products: ties of f16, products that vanish
  subnormal,     // operands and accumulators with the lowest exponents
  signed_zeros,  // mostly zeros of both signs
  special,       // some NaN, infinities, largest numbers in operands and accumulators
  from_zero,     // scale-d = 0: the accumulator is not used
};
inline constexpr int kKinds = 11;
inline constexpr std::string_view kKindNames[kKinds] = {"uniform",      "linear",   "wide",     "cancelling",
                                                        "c_cancels",    "one_sign", "large_c",  "subnormal",
                                                        "signed_zeros", "special",  "from_zero"};

/// Formats of the operands and of the accumulator; `number` tells arithmetics apart in the draw.
struct TileFormat {
  BinaryFormat a, b, c;
  std::uint32_t number;
  bool wide_operands() const { return a.sign_shift() == 15; }
  int k() const { return wide_operands() ? 16 : 32; }
};

struct Tile {
  std::vector<std::uint8_t> a, b;  // [64][32 bytes], [256][32 bytes]
  std::vector<std::uint32_t> c;    // [64][256] patterns; empty where it is not used
};

/// 64 bits for element i of one tensor of one tile.
class Bits {
 public:
  Bits(std::uint64_t seed, std::uint32_t tensor, std::uint64_t first)
      : seed_(seed), tensor_(tensor), first_(first) {}
  std::uint64_t operator()(std::uint64_t i) const {
    const Philox4 r = random_block(seed_, tensor_, first_ + i / 2);
    return i % 2 ? std::uint64_t(r.z) << 32 | r.w : std::uint64_t(r.x) << 32 | r.y;
  }

 private:
  std::uint64_t seed_;
  std::uint32_t tensor_;
  std::uint64_t first_;
};

/// Sign (bit 63), fraction (upper bits below it) and exponent field of a pattern; the field is kept finite.
inline std::uint32_t pattern(const BinaryFormat& f, std::uint64_t bits, int field) {
  const int top = (1 << f.exponent_bits) - (f.infinity ? 2 : 1);
  const std::uint32_t sign = std::uint32_t(bits >> 63) << f.sign_shift();
  std::uint32_t fraction = std::uint32_t(bits >> 40) & ((1u << f.fraction_bits) - 1);
  field = std::clamp(field, 0, top);
  if (!f.infinity && field == top && fraction == (1u << f.fraction_bits) - 1)
    --fraction;  // that would be NaN
  return sign | std::uint32_t(field) << f.fraction_bits | fraction;
}
inline std::uint32_t largest(const BinaryFormat& f) { return pattern(f, ~0ull >> 1, 1 << f.exponent_bits); }

/// Exponents 0, -1, -2, ... with probabilities 1/2, 1/4, 1/8, ...
inline int geometric(std::uint64_t bits) { return -__builtin_ctzll(bits | 1ull << 20); }

inline std::uint32_t special_pattern(const BinaryFormat& f, std::uint64_t bits) {
  const std::uint32_t sign = std::uint32_t(bits >> 63) << f.sign_shift();
  const std::uint32_t all_ones = (1u << f.sign_shift()) - 1,
                      infinity = all_ones ^ ((1u << f.fraction_bits) - 1);
  switch (bits >> 8 & 3) {
    case 0:
      return sign | (f.infinity ? infinity | 1u << (f.fraction_bits - 1 - int(bits >> 10 & 1)) : all_ones);
    case 1:
      return sign | largest(f);
    default:
      return sign | (f.infinity ? infinity : largest(f));
  }
}

/// Uniform exponents end where 32 products still fit the accumulator: above 2^6 each for f16 ones.
inline std::uint32_t draw_operand(const BinaryFormat& f, bool f16_result, Kind kind, std::uint64_t bits) {
  const int bias = f.bias(), fields = 1 << f.exponent_bits;
  const int uniform_field = int(bits >> 8 & 0xFF) % (f16_result ? bias + 6 : fields);
  switch (kind) {
    case Kind::wide:
      return pattern(f, bits, bits % 8 ? 1 + int(bits >> 8 & 7) : bias + 1 + int(bits >> 8 & 3));
    case Kind::one_sign:
      return pattern(f, bits & ~0ull >> 1, bias + geometric(bits));
    case Kind::subnormal:
      return pattern(f, bits, int(bits % 4 == 0) + int(bits % 64 == 0));
    case Kind::signed_zeros:
      return bits % 32 ? std::uint32_t(bits >> 63) << f.sign_shift()
                       : pattern(f, bits, bias + geometric(bits >> 8));
    case Kind::special:
      return bits % 128 == 0 ? special_pattern(f, bits) : pattern(f, bits, bias + geometric(bits >> 8));
    case Kind::uniform:
    case Kind::from_zero:
      return pattern(f, bits, uniform_field);
    default:
      return pattern(f, bits, bias + geometric(bits));
  }
}

inline std::uint32_t draw_accumulator(const BinaryFormat& f, Kind kind, std::uint64_t bits) {
  const std::uint32_t zero = std::uint32_t(bits >> 63) << f.sign_shift();
  const int bias = f.bias(), range = int(bits >> 16 & 0xFF);
  switch (kind) {
    case Kind::uniform:
      if (bits % 8 == 0) return zero;
      return pattern(f, bits, bits % 2 ? range % (1 << f.exponent_bits) : bias - 16 + range % 32);
    case Kind::one_sign:
      return pattern(f, bits & ~0ull >> 1, bias + range % 8);
    case Kind::large_c:
      return pattern(f, bits, bias + range % 20);
    case Kind::subnormal:
      return pattern(f, bits, f.exponent_bits == 8 ? range % 128 : int(bits % 4 == 0));
    case Kind::signed_zeros:
      return bits % 4 ? zero : pattern(f, bits, range % 8);
    case Kind::special:
      return bits % 16 == 0 ? special_pattern(f, bits) : pattern(f, bits, bias - 4 + range % 8);
    default:
      return bits % 8 == 0 ? zero : pattern(f, bits, bias - 12 + range % 18);
  }
}

inline double value(const BinaryFormat& f, std::uint32_t bits) {
  const reference::Number x = reference::decode(f, bits);
  return std::ldexp(x.negative ? -double(x.significand) : double(x.significand),
                    x.exponent - f.fraction_bits);
}

/// x cut to f, toward zero; 0 where its exponent is not a normal one of f.
inline std::uint32_t cut_to(const BinaryFormat& f, double x) {
  int exponent = 0;
  const double m = std::frexp(std::fabs(x), &exponent);  // in [1/2, 1)
  const int field = exponent - 1 + f.bias();
  if (x == 0 || field < 1 || field > 2 * f.bias()) return 0;
  const auto significand = std::uint32_t(std::ldexp(m, f.fraction_bits + 1));
  return std::uint32_t(x < 0) << f.sign_shift() | std::uint32_t(field) << f.fraction_bits |
         (significand & ((1u << f.fraction_bits) - 1));
}

/// Rows of operands; pairs of k are exact opposites in A where the kind cancels.
inline std::vector<std::uint32_t> draw_rows(const TileFormat& t, const BinaryFormat& f, Kind kind, int rows,
                                            bool opposite, const Bits& bits) {
  const int k = t.k();
  std::vector<std::uint32_t> v(std::size_t(rows) * k);
  for (int i = 0; i < rows * k; ++i) {
    v[i] = draw_operand(f, t.c.exponent_bits == 5, kind, bits(std::uint64_t(i)));
    if (kind == Kind::cancelling && i % 2 && i % k != k - 1)
      v[i] = v[i - 1] ^ std::uint32_t(opposite) << f.sign_shift();
  }
  return v;
}
inline std::vector<std::uint8_t> as_bytes(const std::vector<std::uint32_t>& v, bool wide) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(v.size() * (wide ? 2 : 1));
  for (std::uint32_t x : v) {
    bytes.push_back(std::uint8_t(x));
    if (wide) bytes.push_back(std::uint8_t(x >> 8));
  }
  return bytes;
}

inline Tile draw_tile(std::uint64_t seed, const TileFormat& f, Kind kind, std::uint32_t number) {
  const std::uint64_t first = (std::uint64_t(number) * kKinds + std::uint64_t(kind)) << 16;
  const int k = f.k();
  const auto a = draw_rows(f, f.a, kind, kRows, true, Bits(seed, 4 * f.number, first));
  const auto b = draw_rows(f, f.b, kind, kColumns, false, Bits(seed, 4 * f.number + 1, first));
  Tile tile{as_bytes(a, f.wide_operands()), as_bytes(b, f.wide_operands()), {}};
  if (kind == Kind::from_zero) return tile;
  const Bits bits(seed, 4 * f.number + 2, first);
  tile.c.resize(std::size_t(kRows) * kColumns);
  for (std::size_t i = 0; i < tile.c.size(); ++i) tile.c[i] = draw_accumulator(f.c, kind, bits(i));
  if (kind != Kind::c_cancels) return tile;
  std::vector<double> x(a.size()), y(b.size());
  std::transform(a.begin(), a.end(), x.begin(), [&](std::uint32_t p) { return value(f.a, p); });
  std::transform(b.begin(), b.end(), y.begin(), [&](std::uint32_t p) { return value(f.b, p); });
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kColumns; ++n) {
      double sum = 0;  // in this order, everywhere
      for (int i = 0; i < k; ++i) sum += x[m * k + i] * y[n * k + i];
      std::uint32_t& c = tile.c[m * kColumns + n];
      const std::uint64_t r = bits(std::uint64_t(m * kColumns + n));
      c = cut_to(f.c, -sum) ^ std::uint32_t(r % 4 != 0) << (r >> 8) % std::uint64_t(f.c.fraction_bits);
    }
  return tile;
}

}  // namespace moe::test
