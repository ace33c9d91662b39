// The wgmma chain with AVX-512 BW and VNNI: 32 products an instruction as int16, shifted one by one (vpsrlvw)
// and summed with their signs in pairs (vpdpwssd). GCC 12 takes the undefined vectors inside its own AVX-512
// intrinsics for faults (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/packed.hpp"

#define MOE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))

namespace moe::reference {
namespace {

using packed::kPairs;
using packed::WgmmaGroup;
using packed::WgmmaRow;

constexpr short kZeroExponent = -1000;  // a zero operand never sets the largest exponent
constexpr int kNoExponent = -3000;
constexpr int kLowest = -100;  // below it 2^(emax - 13) leaves the normal floats: element by element

struct Decoded {
  __m512i magnitude, exponent, sign;
  __mmask32 special;
};

/// 32 codes in int16 lanes. Significands have 3 fraction bits in both formats (E5M2's are doubled).
MOE_AVX512 inline Decoded decode32(__m512i code, Fp8 format) {
  const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7F));
  __m512i field, fraction, bias;
  Decoded d;
  if (format == Fp8::e4m3) {
    field = _mm512_srli_epi16(magnitude, 3);
    fraction = _mm512_and_si512(magnitude, _mm512_set1_epi16(7));
    bias = _mm512_set1_epi16(7);
    d.special = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7F));
  } else {
    field = _mm512_srli_epi16(magnitude, 2);
    fraction = _mm512_slli_epi16(_mm512_and_si512(magnitude, _mm512_set1_epi16(3)), 1);
    bias = _mm512_set1_epi16(15);
    d.special = _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(0x7C));
  }
  const __mmask32 normal = _mm512_test_epi16_mask(field, field);
  d.magnitude = _mm512_mask_add_epi16(fraction, normal, fraction, _mm512_set1_epi16(8));
  const __m512i exponent = _mm512_sub_epi16(_mm512_max_epi16(field, _mm512_set1_epi16(1)), bias);
  const __mmask32 zero = _mm512_testn_epi16_mask(magnitude, magnitude);
  d.exponent = _mm512_mask_blend_epi16(zero, exponent, _mm512_set1_epi16(kZeroExponent));
  d.sign = _mm512_movm_epi16(_mm512_test_epi16_mask(code, _mm512_set1_epi16(0x80)));
  return d;
}

MOE_AVX512 inline bool pack_row(Fp8 format, WgmmaRow& row) {
  // pairs of dword j: the even bytes, then the odd bytes
  const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(row.codes.code));
  const __m256i byte = _mm256_set1_epi16(0xFF);
  const __m256i even = _mm256_and_si256(codes, byte), odd = _mm256_srli_epi16(codes, 8);
  const __m256i low = _mm256_unpacklo_epi32(even, odd), high = _mm256_unpackhi_epi32(even, odd);
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_permute2x128_si256(low, high, 0x20)),
                                          _mm256_permute2x128_si256(low, high, 0x31), 1);
  const Decoded d = decode32(both, format);
  _mm512_store_si512(row.magnitude, d.magnitude);
  _mm512_store_si512(row.exponent, d.exponent);
  _mm512_store_si512(row.sign, d.sign);
  return d.special != 0;
}

MOE_AVX512 void pack_rows(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
                          std::byte* out) {
  auto* row = reinterpret_cast<WgmmaRow*>(out);
  for (int r = 0; r < rows; ++r)
    for (int k0 = 0; k0 < k; k0 += kBlockK, ++row) {
      packed::take_codes(codes + r * stride, stride, 1, 1, k0, k, row->codes.code);
      row->codes.format = format;
      row->codes.special = pack_row(format, *row);
    }
}

/// Four rows of 16 bytes each in the lanes r, r + 4, r + 8, r + 12.
MOE_AVX512 inline __m512i load_lanes(const std::uint8_t (*code)[32], int r, int half) {
  const auto part = [&](int i) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(code[r + 4 * i] + 16 * half));
  };
  __m512i v = _mm512_castsi128_si512(part(0));
  v = _mm512_inserti32x4(v, part(1), 1);
  v = _mm512_inserti32x4(v, part(2), 2);
  return _mm512_inserti32x4(v, part(3), 3);
}

/// Decodes four neighbouring codes of 16 columns into pairs p and p + 1.
MOE_AVX512 inline void pack_dwords(Fp8 format, __m512i dword, WgmmaGroup& g, int p, std::uint16_t& special) {
  const __m512i byte = _mm512_set1_epi16(0xFF);
  const __m512i half[2] = {_mm512_and_si512(dword, byte), _mm512_srli_epi16(dword, 8)};
  for (int h = 0; h < 2; ++h) {
    const Decoded d = decode32(half[h], format);
    _mm512_store_si512(g.magnitude[p + h], _mm512_slli_epi16(d.magnitude, 7));
    _mm512_store_si512(g.exponent[p + h], d.exponent);
    _mm512_store_si512(g.sign[p + h], d.sign);
    if (d.special) {
      const __m512i lanes = _mm512_movm_epi16(d.special);
      special |= _mm512_test_epi32_mask(lanes, lanes);
    }
  }
}

MOE_AVX512 void pack_group(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns, int k,
                           std::byte* out) {
  auto* group = reinterpret_cast<WgmmaGroup*>(out);
  for (int k0 = 0; k0 < k; k0 += kBlockK, ++group) {
    packed::take_codes(codes, stride, columns, kGroupColumns, k0, k, group->codes.code[0]);
    group->codes.format = format;
    std::uint16_t special = 0;
    for (int half = 0; half < 2; ++half) {
      // 4 x 4 transposition of dwords inside each 128-bit lane: a vector then holds one dword of all 16
      // columns
      __m512i v[4];
      for (int r = 0; r < 4; ++r) v[r] = load_lanes(group->codes.code, r, half);
      const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
      const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
      pack_dwords(format, _mm512_unpacklo_epi64(a, c), *group, 8 * half + 0, special);
      pack_dwords(format, _mm512_unpackhi_epi64(a, c), *group, 8 * half + 2, special);
      pack_dwords(format, _mm512_unpacklo_epi64(b, d), *group, 8 * half + 4, special);
      pack_dwords(format, _mm512_unpackhi_epi64(b, d), *group, 8 * half + 6, special);
    }
    group->codes.special = special;
  }
}

/// The accumulator of 16 columns as the adder sees it, significand with 23 (f32) or 13 (f16) fraction bits.
struct Accumulator {
  __m512i significand, exponent;
  __mmask16 negative, nonzero, special;
};

template <bool kF16>
MOE_AVX512 inline Accumulator decode_accumulator(__m512i c) {
  constexpr int fraction = kF16 ? 10 : 23, top = kF16 ? 31 : 255, bias = kF16 ? 15 : 127;
  Accumulator a;
  const __m512i field = _mm512_and_si512(_mm512_srli_epi32(c, fraction), _mm512_set1_epi32(top));
  __m512i s = _mm512_and_si512(c, _mm512_set1_epi32((1 << fraction) - 1));
  s = _mm512_mask_or_epi32(s, _mm512_test_epi32_mask(field, field), s, _mm512_set1_epi32(1 << fraction));
  a.nonzero = _mm512_test_epi32_mask(s, s);
  a.significand = kF16 ? _mm512_slli_epi32(s, 3) : s;
  const __m512i e = _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(bias));
  a.exponent = _mm512_mask_blend_epi32(a.nonzero, _mm512_set1_epi32(kNoExponent), e);
  a.negative = _mm512_test_epi32_mask(c, _mm512_set1_epi32(kF16 ? 0x8000 : int(0x80000000u)));
  a.special = _mm512_cmpeq_epi32_mask(field, _mm512_set1_epi32(top));
  return a;
}

/// Elements outside the fast arithmetic, one by one.
template <bool kF16>
MOE_AVX512 __attribute__((noinline)) __m512i recompute(const WgmmaRow& row, const WgmmaGroup& group,
                                                       __m512i c, __m512i result, __mmask16 which) {
  alignas(64) std::uint32_t from[16], to[16];
  _mm512_store_si512(from, c);
  _mm512_store_si512(to, result);
  for (unsigned rest = which; rest != 0; rest &= rest - 1) {
    const int j = __builtin_ctz(rest);
    to[j] = wgmma_k32(row.codes.format, row.codes.code, group.codes.format, group.codes.code[j],
                      kF16 ? AccumulatorFormat::f16 : AccumulatorFormat::f32, from[j]);
  }
  return _mm512_load_si512(to);
}

/// One k32 step of one row and 16 columns: bit patterns in, bit patterns out.
template <bool kF16>
MOE_AVX512 inline __attribute__((always_inline)) __m512i step(const WgmmaRow& row, const WgmmaGroup& group,
                                                              __m512i c) {
  __m512i e[kPairs];
  __m512i max0 = _mm512_set1_epi16(kNoExponent), max1 = max0;
#pragma GCC unroll 16
  for (int p = 0; p < kPairs; p += 2) {
    e[p] = _mm512_add_epi16(_mm512_set1_epi32(row.exponent[p]), _mm512_load_si512(group.exponent[p]));
    e[p + 1] =
        _mm512_add_epi16(_mm512_set1_epi32(row.exponent[p + 1]), _mm512_load_si512(group.exponent[p + 1]));
    max0 = _mm512_max_epi16(max0, e[p]);
    max1 = _mm512_max_epi16(max1, e[p + 1]);
  }
  max0 = _mm512_max_epi16(max0, max1);
  const __m512i high = _mm512_srai_epi32(max0, 16), low = _mm512_srai_epi32(_mm512_slli_epi32(max0, 16), 16);

  const Accumulator acc = decode_accumulator<kF16>(c);
  const __m512i largest = _mm512_max_epi32(_mm512_max_epi32(high, low), acc.exponent);
  const __m512i emax = _mm512_max_epi32(largest, _mm512_set1_epi32(kLowest));
  const __mmask16 tiny = _mm512_mask_cmplt_epi32_mask(acc.nonzero, largest, _mm512_set1_epi32(kLowest));

  // every product in units of 2^(emax - 13): 6 + 7 fraction bits, shifted right by emax - e
  const __m512i emax16 = _mm512_mask_blend_epi16(0xAAAAAAAA, emax, _mm512_slli_epi32(emax, 16));
  const __m512i one = _mm512_set1_epi16(1);
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0;
#pragma GCC unroll 16
  for (int p = 0; p < kPairs; ++p) {
    const __m512i product =
        _mm512_mullo_epi16(_mm512_set1_epi32(row.magnitude[p]), _mm512_load_si512(group.magnitude[p]));
    const __m512i cut = _mm512_srlv_epi16(product, _mm512_sub_epi16(emax16, e[p]));
    // (sign_a ^ sign_b) | 1 is +1 or -1
    const __m512i sign = _mm512_ternarylogic_epi32(_mm512_set1_epi32(row.sign[p]),
                                                   _mm512_load_si512(group.sign[p]), one, 0xBE);
    if (p % 2 == 0)
      sum0 = _mm512_dpwssd_epi32(sum0, cut, sign);
    else
      sum1 = _mm512_dpwssd_epi32(sum1, cut, sign);
  }
  __m512i sum = _mm512_add_epi32(sum0, sum1);
  const __m512i drop =
      _mm512_add_epi32(_mm512_sub_epi32(emax, acc.exponent), _mm512_set1_epi32(kF16 ? 0 : 10));
  const __m512i cut = _mm512_srlv_epi32(acc.significand, drop);
  sum = _mm512_mask_sub_epi32(_mm512_add_epi32(sum, cut), acc.negative, sum, cut);

  // |sum| < 2^24: the conversion and the scaling are exact, what follows is the one rounding
  const __m512 unit =
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(emax, _mm512_set1_epi32(127 - 13)), 23));
  const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), unit);
  __m512i result;
  if constexpr (kF16) {
    result = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    // -0 becomes +0
    result = _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(result, _mm512_set1_epi32(0x8000)), result);
  } else {
    result = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(~0x3FF));
  }

  const __mmask16 slow =
      __mmask16(acc.special | tiny | group.codes.special | (row.codes.special ? 0xFFFF : 0));
  if (__builtin_expect(slow != 0, 0)) result = recompute<kF16>(row, group, c, result, slow);
  return result;
}

template <bool kF16, class T>
MOE_AVX512 void run(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                    int blocks, T* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const WgmmaGroup*>(group);
  // rows inside, k outside: neighbouring steps do not wait for each other
  for (int b = 0; b < blocks; ++b)
    for (int r = 0; r < n_rows; ++r) {
      const auto* row = reinterpret_cast<const WgmmaRow*>(rows + r * row_stride);
      T* d = acc + r * acc_stride;
      if constexpr (kF16) {
        auto* half = reinterpret_cast<__m256i*>(d);
        const __m512i c = _mm512_cvtepu16_epi32(_mm256_loadu_si256(half));
        _mm256_storeu_si256(half, _mm512_cvtepi32_epi16(step<kF16>(row[b], columns[b], c)));
      } else {
        _mm512_storeu_si512(d, step<kF16>(row[b], columns[b], _mm512_loadu_si512(d)));
      }
    }
}

}  // namespace

constinit const ChainKernel kWgmmaAvx512{sizeof(WgmmaRow), sizeof(WgmmaGroup), pack_rows,
                                         pack_group,       run<false, float>,  run<true, std::uint16_t>};

}  // namespace moe::reference
