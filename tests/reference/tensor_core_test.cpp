// Does one instruction have the features that single the model out? (golden_test.cpp compares with the
// silicon.)
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "reference/tensor_core/instructions.hpp"
#include "tests/reference/tensor_core_draw.hpp"

namespace moe::reference {
namespace {

using Codes = std::vector<std::uint8_t>;
constexpr auto kF32 = AccumulatorFormat::f32;
constexpr auto kHalf = AccumulatorFormat::f16;

float wgmma(const Codes& a, const Codes& b, float c) {
  return bits_float(wgmma_k32(Fp8::e4m3, a.data(), Fp8::e4m3, b.data(), kF32, float_bits(c)));
}
/// 32 codes: `values` first, the rest zero.
Codes padded(std::initializer_list<float> values) {
  Codes v(32);
  std::transform(values.begin(), values.end(), v.begin(), [](float x) { return encode_e4m3(x); });
  return v;
}
Codes filled(float value) { return Codes(32, encode_e4m3(value)); }

// Catches an order inside the k32 block: groups of 16, a chain, a tree. All published groupings differ here.
RC_GTEST_PROP(TensorCore, OrderInsideABlockDoesNotMatter, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const int kind = int(g() % draw::kKinds);
  const Fp8 fa = Fp8(g() % 2), fb = Fp8(g() % 2);
  Codes a = draw::codes(g, fa, kind, 32), b = draw::codes(g, fb, int(g() % draw::kKinds), 32);
  const std::uint32_t c = float_bits(draw::accumulator(g));
  const std::uint32_t d = wgmma_k32(fa, a.data(), fb, b.data(), kF32, c);
  std::vector<int> order(32);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), g);
  Codes pa(32), pb(32);
  for (int k = 0; k < 32; ++k) {
    pa[k] = a[order[k]];
    pb[k] = b[order[k]];
  }
  RC_ASSERT(wgmma_k32(fa, pa.data(), fb, pb.data(), kF32, c) == d);
  RC_ASSERT(wgmma_k32(fb, b.data(), fa, a.data(), kF32, c) == d);  // what Swap-AB rests on
}

// Catches a truncation toward minus infinity ("sign-fill shift"): -A, -C must give -D, except that zero is
// always +0.
RC_GTEST_PROP(TensorCore, NegationIsSymmetric, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const int kind = int(g() % draw::kKinds);
  Codes a = draw::codes(g, Fp8::e4m3, kind, 32), b = draw::codes(g, Fp8::e4m3, kind, 32);
  const float c = draw::accumulator(g);
  Codes na = a;
  for (auto& x : na) x ^= 0x80;
  const std::uint32_t d = float_bits(wgmma(a, b, c)), nd = float_bits(wgmma(na, b, -c));
  const bool unsigned_result = d == 0 || d == 0x7FFFFFFFu;
  RC_ASSERT(nd == (unsigned_result ? d : d ^ 0x80000000u));
}

// Catches the products being renormalised before alignment, and a wrong width: 13 fraction bits below emax.
TEST(TensorCore, KeepsThirteenBitsBelowTheLargestExponent) {
  // 256 * 1 sets emax = 8: the unit is 2^-5
  EXPECT_EQ(wgmma(padded({256, 0.03125f}), padded({1, 1}), 0), 256.03125f);  // 2^-5 stays
  EXPECT_EQ(wgmma(padded({256, 0.015625f}), padded({1, 1}), 0), 256.0f);     // 2^-6 is cut
  EXPECT_EQ(wgmma(padded({256, -0.015625f}), padded({1, 1}), 0), 256.0f);    // toward zero, not down
  EXPECT_EQ(wgmma(padded({256, 0.015625f, 0.015625f}), padded({1, 1, 1}), 0),
            256.0f);  // each term on its own
  // 1.875 * 1.875 = 3.515625 keeps exponent 0 although it is above 2: two terms of 2^-13 reach the result's
  // unit 2^-12
  EXPECT_EQ(wgmma(padded({1.875f, 0.015625f, 0.015625f}), padded({1.875f, 0.0078125f, 0.0078125f}), 0),
            3.515625f + 0.000244140625f);
}

// Catches zero products that raise emax with their exponents.
TEST(TensorCore, ZerosTakeNoPartInTheAlignment) {
  const Codes big = padded({448, 0.015625f}), zero = padded({0, 0.015625f});
  EXPECT_EQ(wgmma(big, zero, 0), 0.000244140625f);
  EXPECT_EQ(wgmma(filled(0), filled(448), bits_float(0x00802000)), bits_float(0x00802000));
}

// Catches flushed subnormals: of the operands, of the accumulator and of the result.
TEST(TensorCore, KeepsSubnormals) {
  const float tiny = bits_float(0x3B000000);  // 2^-9, the smallest E4M3
  EXPECT_EQ(wgmma(padded({tiny}), padded({tiny}), 0), std::ldexp(1.0f, -18));
  EXPECT_EQ(wgmma(filled(0), filled(0), bits_float(0x00002400)), bits_float(0x00002400));
  EXPECT_EQ(wgmma(filled(0), filled(0), bits_float(0x000023FF)), bits_float(0x00002000));  // lsb 2^-139
  // an E4M3 subnormal aligns with exponent -6, not with its own: 2^-9 * 2^8 counts as exponent 2, unit 2^-11
  EXPECT_EQ(wgmma(padded({tiny}), padded({256}), std::ldexp(1.0f, -12)), 0.5f);
  EXPECT_EQ(wgmma(padded({0.5f}), padded({1}), std::ldexp(1.0f, -12)), 0.5f + std::ldexp(1.0f, -12));
}

// Catches a result with more than 13 fraction bits or rounded to nearest.
RC_GTEST_PROP(TensorCore, ResultIsE8M13, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const float d =
      wgmma(draw::codes(g, Fp8::e4m3, 1, 32), draw::codes(g, Fp8::e4m3, 1, 32), draw::accumulator(g));
  RC_ASSERT(float_bits(d) == 0x7FFFFFFFu || (float_bits(d) & 0x3FFu) == 0u);
}

// Catches -0 results: zero sums are +0, whatever the signs.
TEST(TensorCore, ZeroSumsArePositive) {
  EXPECT_EQ(float_bits(wgmma(filled(-0.0f), filled(1), -0.0f)), 0u);
  EXPECT_EQ(float_bits(wgmma(padded({1, -1}), padded({1, 1}), 0)), 0u);
  EXPECT_EQ(float_bits(wgmma(filled(0), filled(0), -0.0f)), 0u);
}

// Catches a negative sum that is too small for f16 and keeps its sign: every zero an H200 gives is +0.
TEST(TensorCore, SumsThatRoundToZeroArePositive) {
  Codes a(32), b(32);
  const auto half = [&](std::uint8_t x, std::uint8_t y) {  // x * y of E5M2 patterns
    a[3] = x;
    b[3] = y;
    return wgmma_k32(Fp8::e5m2, a.data(), Fp8::e5m2, b.data(), kHalf, 0);
  };
  EXPECT_EQ(half(0x8C, 0x08), 0u);       // -2^-12 * 2^-13: a tie between 0 and the smallest f16
  EXPECT_EQ(half(0x8C, 0x0A), 0x8001u);  // 1.5 times that
  EXPECT_EQ(half(0x81, 0x01), 0u);       // the smallest product, 2^-32
}

// Catches payloads, signs of NaN and infinities that are lost or invented.
TEST(TensorCore, NanAndInfinity) {
  const float inf = bits_float(0x7F800000);
  Codes nan = filled(1);
  nan[7] = 0xFF;
  EXPECT_EQ(float_bits(wgmma(nan, filled(0), 0)), 0x7FFFFFFFu);
  EXPECT_EQ(float_bits(wgmma(filled(1), filled(1), bits_float(0xFFC12345))), 0x7FFFFFFFu);
  EXPECT_EQ(wgmma(filled(448), filled(-448), inf), inf);
  const Codes infinite(32, 0x7C), one(32, 0x3C), minus(32, 0xBC), zero(32, 0);
  const auto e5m2 = [](const Codes& a, const Codes& b, float c, AccumulatorFormat f) {
    return wgmma_k32(Fp8::e5m2, a.data(), Fp8::e5m2, b.data(), f, float_bits(c));
  };
  EXPECT_EQ(e5m2(infinite, one, 0, kF32), 0x7F800000u);
  EXPECT_EQ(e5m2(infinite, minus, 0, kF32), 0xFF800000u);
  EXPECT_EQ(e5m2(infinite, zero, 0, kF32), 0x7FFFFFFFu);
  EXPECT_EQ(e5m2(infinite, one, -inf, kF32), 0x7FFFFFFFu);
  EXPECT_EQ(e5m2(infinite, minus, 0, kHalf), 0xFC00u);
  EXPECT_EQ(e5m2(infinite, zero, 0, kHalf), 0x7FFFu);
}

// Catches an f32 overflow (the unit at 2^127 is 2^114, so there is none) and a wrong f16 one.
TEST(TensorCore, Overflow) {
  const Codes top(32, 0x7B);  // 57344
  const auto run = [&](std::uint32_t c) {
    return wgmma_k32(Fp8::e5m2, top.data(), Fp8::e5m2, top.data(), kF32, c);
  };
  EXPECT_EQ(run(0x7F7FFC00u), 0x7F7FFC00u);
  EXPECT_EQ(run(0x7F7FFFFFu), 0x7F7FFC00u);
  const auto half = [](float x) {
    const Codes a = padded({x}), b = padded({1});
    return wgmma_k32(Fp8::e4m3, a.data(), Fp8::e4m3, b.data(), kHalf, 0x7BFF);  // 65504
  };
  EXPECT_EQ(half(15), 0x7BFFu);
  EXPECT_EQ(half(16), 0x7C00u);
}

// Catches a chain that is associative: the order of k32 steps must matter, often (the H200: 79 % of random
// results).
TEST(TensorCore, OrderOfStepsMatters) {
  draw::Rng g(3);
  int differ = 0;
  for (int i = 0; i < 1000; ++i) {
    Codes a[4], b[4];
    for (int s = 0; s < 4; ++s) {
      a[s] = draw::codes(g, Fp8::e4m3, 0, 32);
      b[s] = draw::codes(g, Fp8::e4m3, 0, 32);
    }
    float forward = 0, backward = 0;
    for (int s = 0; s < 4; ++s) {
      forward = wgmma(a[s], b[s], forward);
      backward = wgmma(a[3 - s], b[3 - s], backward);
    }
    differ += forward != backward;
  }
  EXPECT_GT(differ, 400);
}

// Catches a wrong E4M3 -> f16 conversion: every code must keep its value.
TEST(TensorCore, Fp8ToF16IsExact) {
  for (unsigned code = 0; code < 256; ++code)
    for (Fp8 f : {Fp8::e4m3, Fp8::e5m2}) {
      const Number x = decode(format_of(f), code), y = decode(kF16, fp8_to_f16(f, std::uint8_t(code)));
      ASSERT_EQ(x.kind, y.kind);
      ASSERT_EQ(x.negative, y.negative);
      ASSERT_EQ(std::ldexp(x.significand, x.exponent - format_of(f).fraction_bits),
                std::ldexp(y.significand, y.exponent - 10));
    }
}

// ---- FP16 HMMA
// ---------------------------------------------------------------------------------------------------

/// One k16 step on FP8 values.
float hmma(const std::vector<float>& a, const std::vector<float>& b, float c) {
  std::uint16_t x[16] = {}, y[16] = {};
  for (std::size_t k = 0; k < a.size(); ++k) {
    x[k] = fp8_to_f16(Fp8::e5m2, encode_e5m2(a[k]));
    y[k] = fp8_to_f16(Fp8::e5m2, encode_e5m2(b[k]));
  }
  return bits_float(hmma_k16(x, y, kF32, float_bits(c)));
}

// Catches F = 24 or 26 and a result that is rounded to nearest.
TEST(Hmma, KeepsTwentyFiveBitsAndTruncates) {
  const auto p = [](int e) { return std::ldexp(1.0f, e); };
  // emax = 0: the unit is 2^-25. Two terms of 2^-25 make 2^-24, which the 23-bit result drops beside 1 ...
  EXPECT_EQ(hmma({1, p(-12), p(-12)}, {1, p(-13), p(-13)}, 0), 1.0f);
  // ... but four make 2^-23: they were kept
  EXPECT_EQ(hmma({1, p(-12), p(-12), p(-12), p(-12)}, {1, p(-13), p(-13), p(-13), p(-13)}, 0), 1.0f + p(-23));
  // of 2^-26, eight would make 2^-23 were they kept
  std::vector<float> a{1}, b{1};
  for (int k = 0; k < 8; ++k) {
    a.push_back(p(-13));
    b.push_back(p(-13));
  }
  EXPECT_EQ(hmma(a, b, 0), 1.0f);
  EXPECT_EQ(hmma({1, p(-12)}, {-1, -p(-12)}, 0), -1.0f - 0.0f);  // -1 - 2^-24 toward zero
}

// Catches a sequential or tree-shaped sum.
RC_GTEST_PROP(Hmma, OrderInsideAStepDoesNotMatter, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const int kind = int(g() % 7);
  std::uint16_t a[16], b[16], pa[16], pb[16];
  std::vector<int> order(16);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), g);
  for (int k = 0; k < 16; ++k) {
    a[k] = draw::f16(g, kind);
    b[k] = draw::f16(g, kind);
  }
  for (int k = 0; k < 16; ++k) {
    pa[k] = a[order[k]];
    pb[k] = b[order[k]];
  }
  const std::uint32_t c = float_bits(draw::accumulator(g));
  RC_ASSERT(hmma_k16(a, b, kF32, c) == hmma_k16(pa, pb, kF32, c));
  RC_ASSERT(hmma_k16(a, b, kF32, c) == hmma_k16(b, a, kF32, c));
}

// Catches a lossy accumulator: where the sum fits 24 bits, the HMMA step is exact, unlike wgmma.
RC_GTEST_PROP(Hmma, IsExactOnSmallIntegers, (std::uint64_t seed)) {
  draw::Rng g(seed);
  std::vector<float> a(16), b(16);
  double exact = double(std::int64_t(g() % 2000001)) - 1e6;
  const float c = float(exact);
  for (int k = 0; k < 16; ++k) {
    a[k] = float(int(g() % 9) - 4);
    b[k] = float(int(g() % 9) - 4);
    exact += double(a[k]) * b[k];
  }
  RC_ASSERT(double(hmma(a, b, c)) == exact);
}

// Catches a fused accumulator on the mma.sync FP8 path: C is added afterwards, rounded to nearest.
TEST(MmaSync, AddsTheAccumulatorWithOneRounding) {
  const Codes a = padded({1}), b = padded({1});
  const float c = 16777216.0f + 2.0f;  // 2^24 + 2: + 1 is a tie, nearest even is 2^24 + 4
  EXPECT_EQ(bits_float(mma_sync_fp8_k32(Fp8::e4m3, a.data(), Fp8::e4m3, b.data(), kF32, float_bits(c))),
            16777220.0f);
  const Codes minus = padded({-1});
  EXPECT_EQ(mma_sync_fp8_k32(Fp8::e4m3, a.data(), Fp8::e4m3, minus.data(), kHalf, 0x3C00), 0u);
  EXPECT_EQ(mma_sync_fp8_k32(Fp8::e4m3, a.data(), Fp8::e4m3, b.data(), kHalf, 0x7BFF), 0x7BFFu);
}

// Catches swapped halves: bytes 0, 1 of every register go first, so 1 + 2^-24 (bytes 2, 3) - 1 (bytes 0, 1)
// is exact in one order and lost in the other.
TEST(MmaSync, ChainsBytePairs) {
  Codes a(32), b(32);
  const auto put = [&](int k, float x, float y) {
    a[k] = encode_e5m2(x);
    b[k] = encode_e5m2(y);
  };
  put(0, 1, -1);
  put(4, std::ldexp(1.0f, -12), std::ldexp(1.0f, -12));  // first HMMA: -1 + 2^-24 -> -(1 - 2^-24), exact
  put(2, 1, 1);                                          // second: + 1
  EXPECT_EQ(bits_float(mma_sync_fp8_k32(Fp8::e5m2, a.data(), Fp8::e5m2, b.data(), kF32, 0)),
            std::ldexp(1.0f, -24));
  put(0, 0, 0);
  put(4, 0, 0);
  put(2, 1, 1);
  put(6, std::ldexp(1.0f, -12), std::ldexp(1.0f, -12));  // one fused sum: 1 + 2^-24 is truncated
  EXPECT_EQ(bits_float(mma_sync_fp8_k32(Fp8::e5m2, a.data(), Fp8::e5m2, b.data(), kF32, 0)), 1.0f);
}

}  // namespace
}  // namespace moe::reference
