// Sums of few products: what no accumulator of Hopper changes, and how much it can change the others.
#include "reference/sparse_sum.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/instructions.hpp"

namespace moe::reference {
namespace {

constexpr std::int64_t kK = 256;

/// One row, one column, scales of 1.
struct OneSum {
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(kK, 0), w = std::vector<std::uint8_t>(kK, 0);
  std::vector<float> ones = std::vector<float>(kK / 128, 1.0f);
  GroupedGemm gemm(QuantKind kind) const {
    GroupedGemm g;
    g.a = {kK, a.data(), ones.data(), 0, 0, 0, 0};
    g.w = {kind, 1, 1, kK, w.data(), ones.data()};
    g.rows = {{0, 0, 0}};
    return g;
  }
  /// Steps of 32 k's in the order given, promoted to fp32 behind every `promote` of them.
  double hopper(const std::vector<int>& order, int promote) const {
    float sum = 0;
    std::uint32_t part = 0;
    int steps = 0;
    for (const int step : order) {
      part = wgmma_k32(Fp8::e4m3, a.data() + 32 * step, Fp8::e4m3, w.data() + 32 * step,
                       AccumulatorFormat::f32, part);
      if (++steps % promote == 0) sum += bits_float(part), part = 0;
    }
    return double(sum + bits_float(part));
  }
};

std::vector<int> any_order() {
  std::vector<int> order;
  for (int i = 0; i < int(kK / 32); ++i) order.push_back(i);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  return order;
}

std::uint8_t any_number() {
  return std::uint8_t(*rc::gen::inRange(0, 127) | (*rc::gen::arbitrary<bool>() ? 0x80 : 0));
}

/// What the bound leaves for the accumulator.
double loss(const GroupedSum& sum, const OneSum& s) {
  double size = 0;
  for (std::size_t k = 0; k < std::size_t(kK); ++k)
    size += std::fabs(double(decode_e4m3(s.a[k])) * double(decode_e4m3(s.w[k])));
  return sum.bound[0] - kFactorError * size;
}

// Catches: a sum called exact that the tensor core cuts in some order of its steps, or cuts by more than the
// bound has for it.
RC_GTEST_PROP(SparseSum, HoldsWhatHopperGivesInAnyOrder, ()) {
  OneSum s;
  const int products = *rc::gen::inRange(1, 5);
  for (int i = 0; i < products; ++i) {
    const std::size_t k = *rc::gen::inRange<std::size_t>(0, kK);
    s.a[k] = any_number(), s.w[k] = any_number();
  }
  const GroupedGemm g = s.gemm(QuantKind::tensor_static);
  const GroupedSum sum = sparse_sum(g, g.rows, nullptr, 1);
  const double left = loss(sum, s), got = s.hopper(any_order(), *rc::gen::inRange(1, 9));
  RC_TAG(left < 1e-9 ? "exact" : "cut");
  if (std::fabs(left) < 0x1p-40 * std::fabs(sum.bound[0]) || left < 0)
    RC_ASSERT(got == sum.value[0]);
  else
    RC_ASSERT(std::fabs(got - sum.value[0]) <= left);
}

// Catches: a chain that is taken to end at a k-block where nothing ends it, or not to end where a scale does.
TEST(SparseSum, AChainEndsWhereAScaleDoes) {
  OneSum s;
  s.a[0] = s.a[200] = encode_e4m3(1.0f);
  s.w[0] = encode_e4m3(448.0f), s.w[200] = encode_e4m3(0x1p-9f);  // 2^-9 beside 448: lost in one chain
  const GroupedGemm one = s.gemm(QuantKind::tensor_static), blocks = s.gemm(QuantKind::block128);
  EXPECT_GT(loss(sparse_sum(one, one.rows, nullptr, 1), s), 0x1p-9);
  EXPECT_LT(loss(sparse_sum(blocks, blocks.rows, nullptr, 1), s), 1e-9);
}

// Catches: a sum of 14 bits taken for one that is cut (the twin then shows nothing), or one of 15 for exact.
TEST(SparseSum, FourteenBitsAreExactFifteenAreNot) {
  for (const int lower : {6, 7, 8}) {
    OneSum s;
    s.a[0] = encode_e4m3(15.0f), s.w[0] = encode_e4m3(15.0f);                         // 225
    s.a[1] = encode_e4m3(1.0f), s.w[1] = encode_e4m3(std::ldexp(1.125f, 3 - lower));  // last bit 2^-lower
    const GroupedGemm g = s.gemm(QuantKind::tensor_static);
    const double left = loss(sparse_sum(g, g.rows, nullptr, 1), s);
    if (lower == 6)
      EXPECT_LT(left, 1e-9);
    else
      EXPECT_GT(left, 0x1p-7);
  }
}

}  // namespace
}  // namespace moe::reference
