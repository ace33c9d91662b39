// What does arithmetic round to? PTX bodies of fp32 operations with round to nearest even and no contraction,
// of the conversions between fp32, bf16, e4m3 and f16, and of the warp-wide f16 product mma.sync.m16n8k16.
#pragma once
#include <cstdint>

#include "device/hopper/ptx_sync.cuh"

namespace moe::hopper {

MOE_PTX float as_float(std::uint32_t bits) { return __uint_as_float(bits); }
MOE_PTX std::uint32_t as_bits(float x) { return __float_as_uint(x); }
MOE_PTX float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MOE_PTX float mul_rn(float a, float b) { return __fmul_rn(a, b); }
MOE_PTX float add_rn(float a, float b) { return __fadd_rn(a, b); }
MOE_PTX float sub_rn(float a, float b) { return __fsub_rn(a, b); }
MOE_PTX float div_rn(float a, float b) { return __fdiv_rn(a, b); }
MOE_PTX float sqrt_rn(float a) { return __fsqrt_rn(a); }
/// max(|a|, |b|); a NaN loses against a number.
MOE_PTX float max_mag(float a, float b) { return fmaxf(fabsf(a), fabsf(b)); }

/// Two floats -> bf16 pair, `lo` in the low half; NaN becomes 0x7FFF.
MOE_PTX std::uint32_t pack_bf16(float lo, float hi) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}
/// Nearest e4m3 code, finite values saturate at 448, NaN is 0x7F.
MOE_PTX std::uint8_t to_e4m3(float x) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return static_cast<std::uint8_t>(pair);
}
/// Four e4m3 codes -> four f16, exactly: `lo` holds those of bytes 0 and 1, `hi` of bytes 2 and 3.
MOE_PTX void e4m3x4_to_f16(std::uint32_t codes, std::uint32_t& lo, std::uint32_t& hi) {
  asm("{\n.reg .b16 l, h;\n"
      "mov.b32 {l, h}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, l;\n"
      "cvt.rn.f16x2.e4m3x2 %1, h;\n}\n"
      : "=r"(lo), "=r"(hi)
      : "r"(codes));
}

/// d += a * b over the warp, f16 operands, f32 accumulators ("Matrix Fragments for mma.m16n8k16 with floating
/// point type"): with g = lane / 4, t = lane % 4, a = {row g, g+8} x {columns 2t.. , 2t+8..}, b = {rows 2t..,
/// 2t+8..} of column g, d = {row g, g+8} x columns {2t, 2t+1}.
MOE_PTX void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace moe::hopper
