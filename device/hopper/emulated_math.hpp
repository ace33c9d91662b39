// What does arithmetic round to on the host? The same results as ptx_math.cuh: SSE and fused operations round
// to nearest even, and the project compiles with -ffp-contract=off.
#pragma once
#include <cstdint>

#include "fixtures/problem/host_device.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::hopper {

MOE_HD float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
MOE_HD std::uint32_t as_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
/// Results that are no number have one pattern on the card (recorded in
/// fixtures/golden/conformance_h200.txt).
MOE_HD float canonical(float x) { return x == x ? x : as_float(0x7FFFFFFFu); }
MOE_HD float fma_rn(float a, float b, float c) { return canonical(__builtin_fmaf(a, b, c)); }
MOE_HD float mul_rn(float a, float b) { return canonical(a * b); }
MOE_HD float add_rn(float a, float b) { return canonical(a + b); }
MOE_HD float sub_rn(float a, float b) { return canonical(a - b); }
MOE_HD float div_rn(float a, float b) { return canonical(a / b); }
MOE_HD float sqrt_rn(float a) { return canonical(__builtin_sqrtf(a)); }
MOE_HD float max_mag(float a, float b) {
  const float x = __builtin_fabsf(a), y = __builtin_fabsf(b);
  return canonical(x > y || y != y ? x : y);
}

MOE_HD std::uint32_t pack_bf16(float lo, float hi) {
  return std::uint32_t(encode_bf16(lo)) | std::uint32_t(encode_bf16(hi)) << 16;
}
MOE_HD std::uint8_t to_e4m3(float x) { return encode_e4m3(x); }

/// e4m3 -> f16 bits: exact, because f16 has more exponent and more fraction; NaN becomes 0x7FFF.
MOE_HD std::uint32_t e4m3_to_f16(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x80u) << 8, magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu) return 0x7FFFu;
  if (magnitude >= 8u) return sign | ((magnitude << 7) + ((15u - 7u) << 10));  // rebias the exponent
  if (magnitude == 0u) return sign;
  const std::uint32_t shift = magnitude >= 4u   ? 1u
                              : magnitude >= 2u ? 2u
                                                : 3u;  // subnormal: normalise fraction / 512
  return sign | ((15u - 6u - shift) << 10) | (((magnitude << shift) & 7u) << 7);
}
MOE_HD void e4m3x4_to_f16(std::uint32_t codes, std::uint32_t& lo, std::uint32_t& hi) {
  lo = e4m3_to_f16(codes & 0xFFu) | e4m3_to_f16(codes >> 8 & 0xFFu) << 16;
  hi = e4m3_to_f16(codes >> 16 & 0xFFu) | e4m3_to_f16(codes >> 24) << 16;
}

}  // namespace moe::hopper
