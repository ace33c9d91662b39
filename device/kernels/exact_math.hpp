// Which bits do exp, sigmoid, softplus and tanh give? Every line is one fp32 operation rounded to nearest
// even, so the card, the emulated SM and the host agree to the bit. The recipe of exp is fixtures/README.md,
// "exp, to the bit". Compile with -ffp-contract=off / -fmad=false: only the fused operations that are written
// are fused.
#pragma once
#include <cstdint>

#include "fixtures/problem/host_device.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::exact {

/// e^x for x in [-87, 88], clamped outside; below 3 ulp off the true value. NaN stays NaN.
MOE_HD float exp(float x) {
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: the sum's low bits are x / ln 2 rounded to an integer
  if (x != x) return x;
  x = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = x * 1.44269504f + kRounder;
  const float n = shifted - kRounder;
  float r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = 1.0f / 720.0f;
  p = __builtin_fmaf(p, r, 1.0f / 120.0f);
  p = __builtin_fmaf(p, r, 1.0f / 24.0f);
  p = __builtin_fmaf(p, r, 1.0f / 6.0f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  const std::uint32_t exponent = float_bits(shifted) - float_bits(kRounder);  // n, modulo 2^32
  return bits_float(float_bits(p) + (exponent << 23));
}

/// 1 / (1 + e^-x).
MOE_HD float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

/// x / (1 + e^-x).
MOE_HD float silu(float x) { return x / (1.0f + exp(-x)); }

/// 1 - 2 / (e^2x + 1): absolute error below 2^-23, as gelu needs it.
MOE_HD float tanh(float x) { return 1.0f - 2.0f / (exp(2.0f * x) + 1.0f); }

/// ln(1 + y) for y in [0, 1]: 2 atanh(y / (2 + y)) by its odd series; the first term left out is below 2^-27
/// of the sum.
MOE_HD float log1p_unit(float y) {
  const float s = y / (2.0f + y), z = s * s;
  float p = 1.0f / 15.0f;
  p = __builtin_fmaf(p, z, 1.0f / 13.0f);
  p = __builtin_fmaf(p, z, 1.0f / 11.0f);
  p = __builtin_fmaf(p, z, 1.0f / 9.0f);
  p = __builtin_fmaf(p, z, 1.0f / 7.0f);
  p = __builtin_fmaf(p, z, 1.0f / 5.0f);
  p = __builtin_fmaf(p, z, 1.0f / 3.0f);
  p = __builtin_fmaf(p, z, 1.0f);
  return 2.0f * s * p;
}

/// ln(1 + e^x) without overflow: max(x, 0) + ln(1 + e^-|x|).
MOE_HD float softplus(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  return (x > 0.0f ? x : 0.0f) + log1p_unit(exp(-magnitude));
}

}  // namespace moe::exact
