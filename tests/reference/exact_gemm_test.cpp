// Does the composed GEMM give, element by element, what its equations say? The oracle here is written out one
// element at a time from instructions.hpp, with none of the packing, blocking and threads.
#include "reference/exact/exact_gemm.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>

#include "fixtures/problem/errors.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "tests/reference/tensor_core_draw.hpp"

namespace moe::reference {
namespace {

struct Gemm {
  Semantics semantics;
  QuantScheme scheme;
  int rows, n, k;
  std::vector<std::uint8_t> a, w;
  std::vector<float> a_scale, w_scale, bias, row_weight;
  std::vector<std::int32_t> a_rows;
  std::int64_t ld = 0;

  GemmOperands operands() const {
    GemmOperands o;
    o.a = a.data();
    o.lda = k;
    o.a_rows = a_rows.empty() ? nullptr : a_rows.data();
    o.a_scale = activation_scales(scheme, a_scale.data(), k, ld);
    o.w = w.data();
    o.ldw = k;
    o.w_scale = weight_scales(scheme, w_scale.data(), k);
    o.bias = bias.empty() ? nullptr : bias.data();
    o.row_weight = row_weight.empty() ? nullptr : row_weight.data();
    o.rows = rows;
    o.n = n;
    o.k = k;
    o.scheme = scheme;
    return o;
  }
};

std::vector<float> scales(draw::Rng& g, std::size_t n) {
  std::vector<float> v(n);
  for (auto& x : v) x = std::ldexp(1.0f + float(g() % 8388608) / 8388608, int(g() % 12) - 10);
  return v;
}

Gemm draw_gemm(draw::Rng& g) {
  Gemm m;
  m.scheme.kind = QuantKind(g() % 4);
  m.scheme.scale_layout = ScaleLayout(g() % 2);
  m.rows = int(1 + g() % 9);
  m.k = int(1 + g() % 400);
  m.n = int(1 + g() % 60);
  const bool block = m.scheme.block();
  const int block_intervals[] = {32, 64, 128}, intervals[] = {0, 32, 128, 160, 256};
  m.semantics.promote_k = block ? block_intervals[g() % 3] : intervals[g() % 5];
  m.semantics.accumulator = Accumulator(g() % 2);
  m.semantics.hmma_order = HmmaOrder(g() % 2);
  m.semantics.scale_order = ScaleOrder(g() % 5);
  const int nasty = g() % 4 == 0 ? int(g() % draw::kKinds) : 0;
  m.a = draw::codes(g, Fp8::e4m3, nasty, std::size_t(m.rows) * m.k);
  m.w = draw::codes(g, Fp8::e4m3, 0, std::size_t(m.n) * m.k);
  const int blocks = (m.k + 127) / 128;
  m.ld = (m.rows + 3) / 4 * 4;
  m.a_scale = scales(g, std::size_t(m.ld) * blocks);
  m.w_scale = scales(g, std::size_t(m.n) * blocks);
  if (g() % 2) m.bias = scales(g, m.n);
  if (g() % 2) m.row_weight = scales(g, m.rows);
  if (g() % 2)
    for (int r = 0; r < m.rows; ++r) m.a_rows.push_back(std::int32_t(g() % m.rows));
  return m;
}

/// One k32 block of zero-padded codes on the chosen tensor core.
float tensor_core(const Semantics& s, const std::uint8_t* a, const std::uint8_t* b, float c) {
  std::uint32_t bits = float_bits(c);
  if (s.accumulator == Accumulator::wgmma)
    return bits_float(wgmma_k32(Fp8::e4m3, a, Fp8::e4m3, b, AccumulatorFormat::f32, bits));
  for (int step = 0; step < 2; ++step) {
    std::uint16_t x[16], y[16];
    int n = 0;
    for (int k = 0; k < 32; ++k)
      if ((s.hmma_order == HmmaOrder::contiguous ? k / 16 : k / 2 % 2) == step) {
        x[n] = fp8_to_f16(Fp8::e4m3, a[k]);
        y[n++] = fp8_to_f16(Fp8::e4m3, b[k]);
      }
    bits = hmma_k16(x, y, AccumulatorFormat::f32, bits);
  }
  return bits_float(bits);
}

float block_join(ScaleOrder order, float part, float as, float ws, float acc) {
  switch (order) {
    case ScaleOrder::product_fma:
      return std::fma(as * ws, part, acc);
    case ScaleOrder::act_weight_fma:
      return std::fma(part * as, ws, acc);
    case ScaleOrder::weight_act_fma:
      return std::fma(part * ws, as, acc);
    case ScaleOrder::act_weight_mul_add:
      return acc + (part * as) * ws;
    default:
      return acc + part * (as * ws);
  }
}

float element(const Gemm& m, int r, int column) {
  const int source = m.a_rows.empty() ? r : m.a_rows[r], blocks = (m.k + 127) / 128;
  const auto a_scale = [&](int b) {
    if (!m.scheme.block()) return m.a_scale[m.scheme.tensor() ? 0 : source];
    return m.scheme.scale_layout == ScaleLayout::row ? m.a_scale[source * blocks + b]
                                                     : m.a_scale[b * m.ld + source];
  };
  const auto w_scale = [&](int b) {
    if (!m.scheme.block()) return m.w_scale[m.scheme.tensor() ? 0 : column];
    return m.w_scale[column / 128 * blocks + b];
  };
  const int every = m.semantics.promote_k;
  float acc = 0, part = 0;
  for (int k0 = 0; k0 < m.k; k0 += 32) {
    std::uint8_t a[32] = {}, b[32] = {};
    for (int k = k0; k < std::min(m.k, k0 + 32); ++k) {
      a[k - k0] = m.a[source * m.k + k];
      b[k - k0] = m.w[column * m.k + k];
    }
    part = tensor_core(m.semantics, a, b, part);
    const int end = k0 + 32;
    if (every == 0 || (end % every != 0 && end < m.k)) continue;
    acc = m.scheme.block()
              ? block_join(m.semantics.scale_order, part, a_scale(k0 / 128), w_scale(k0 / 128), acc)
              : acc + part;
    part = 0;
  }
  float y = every == 0 ? part : acc;
  if (!m.scheme.block()) {
    const ScaleOrder order = m.semantics.scale_order;
    const float as = a_scale(0), ws = w_scale(0);
    if (order == ScaleOrder::weight_act_fma)
      y = (y * ws) * as;
    else if (order == ScaleOrder::product_fma || order == ScaleOrder::product_mul_add)
      y = y * (as * ws);
    else
      y = (y * as) * ws;
  }
  if (!m.bias.empty()) y += m.bias[column];
  if (!m.row_weight.empty()) y *= m.row_weight[r];
  return y;
}

std::uint32_t canonical(float x) { return x != x ? 0x7FFFFFFFu : float_bits(x); }

// Catches a wrong promotion interval, scale order, scale index, tail, epilogue order, row index; for every
// Semantics.
RC_GTEST_PROP(ExactGemm, EqualsItsEquations, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const Gemm m = draw_gemm(g);
  std::vector<float> out(std::size_t(m.rows) * m.n);
  exact_gemm(m.semantics, m.operands(), out.data(), 2);
  for (int r = 0; r < m.rows; ++r)
    for (int j = 0; j < m.n; ++j) RC_ASSERT(float_bits(out[r * m.n + j]) == canonical(element(m, r, j)));
}

// Catches bytes that depend on the number of threads or the level, and a second rounding in the bf16 form.
RC_GTEST_PROP(ExactGemm, ThreadsAndLevelsDoNotChangeBits, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const Gemm m = draw_gemm(g);
  const std::size_t size = std::size_t(m.rows) * m.n;
  std::vector<float> one(size), other(size);
  exact_gemm(m.semantics, m.operands(), one.data(), 1, Level::plain);
  for (Level level : {Level::avx2, Level::avx512}) {
    if (!available(level)) continue;
    exact_gemm(m.semantics, m.operands(), other.data(), 3, level);
    RC_ASSERT(std::memcmp(one.data(), other.data(), 4 * size) == 0);
  }
  std::vector<std::uint16_t> rounded(size);
  exact_gemm_bf16(m.semantics, m.operands(), rounded.data(), 2);
  for (std::size_t i = 0; i < size; ++i) RC_ASSERT(rounded[i] == encode_bf16(one[i]));
}

// Catches rows beyond the first block of 256 that read or write the wrong place.
TEST(ExactGemm, ManyRows) {
  draw::Rng g(11);
  Gemm m = draw_gemm(g);
  m.rows = 600;
  m.k = 96;
  m.n = 17;
  m.scheme.kind = QuantKind::token_channel;
  m.semantics.promote_k = 32;
  m.a = draw::codes(g, Fp8::e4m3, 0, std::size_t(m.rows) * m.k);
  m.w = draw::codes(g, Fp8::e4m3, 0, std::size_t(m.n) * m.k);
  m.a_scale = scales(g, m.rows);
  m.w_scale = scales(g, m.n);
  m.bias.clear();
  m.row_weight.clear();
  m.a_rows.clear();
  std::vector<float> out(std::size_t(m.rows) * m.n);
  exact_gemm(m.semantics, m.operands(), out.data(), 2);
  for (int r : {0, 255, 256, 511, 512, 599})
    for (int j = 0; j < m.n; ++j) EXPECT_EQ(float_bits(out[r * m.n + j]), canonical(element(m, r, j)));
}

// Catches a promotion that the hardware could not do being computed as something else.
TEST(ExactGemm, RefusesImpossiblePromotions) {
  draw::Rng g(1);
  Gemm m = draw_gemm(g);
  std::vector<float> out(std::size_t(m.rows) * m.n);
  for (int p : {0, 16, 96, 256}) {
    m.scheme.kind = QuantKind::block128;
    m.semantics.promote_k = p;
    EXPECT_THROW(exact_gemm(m.semantics, m.operands(), out.data(), 1), BadInput) << p;
  }
  m.scheme.kind = QuantKind::tensor_static;
  m.semantics.promote_k = 48;
  EXPECT_THROW(exact_gemm(m.semantics, m.operands(), out.data(), 1), BadInput);
}

// Catches a chain that is secretly exact: same-sign data must show the known loss of fast accumulation,
// toward zero (K = 2048: 3.5 %), and promotion every 128 must cure it.
TEST(ExactGemm, ShowsTheTruncationBiasOfLongChains) {
  draw::Rng g(21);
  Gemm m;
  m.scheme.kind = QuantKind::tensor_static;
  m.semantics.scale_order = ScaleOrder::act_weight_mul_add;
  m.rows = 16;
  m.n = 16;
  m.k = 2048;
  m.a = draw::codes(g, Fp8::e4m3, 0, std::size_t(m.rows) * m.k);
  m.w = draw::codes(g, Fp8::e4m3, 0, std::size_t(m.n) * m.k);
  for (auto* v : {&m.a, &m.w})
    for (auto& x : *v) x &= 0x7F;
  m.a_scale = m.w_scale = {1.0f};
  const auto bias = [&](int promote_k) {
    m.semantics.promote_k = promote_k;
    std::vector<float> out(256);
    exact_gemm(m.semantics, m.operands(), out.data(), 1);
    double loss = 0;
    for (int r = 0; r < 16; ++r)
      for (int j = 0; j < 16; ++j) {
        double sum = 0;
        for (int k = 0; k < m.k; ++k)
          sum += double(decode_e4m3(m.a[r * m.k + k])) * double(decode_e4m3(m.w[j * m.k + k]));
        loss += (out[r * 16 + j] - sum) / sum / 256;
      }
    return loss;
  };
  EXPECT_NEAR(bias(0), -0.035, 0.005);
  EXPECT_NEAR(bias(128), -5.5e-4, 2e-4);
}

}  // namespace
}  // namespace moe::reference
