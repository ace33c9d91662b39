#include "reference/tensor_core/hmma_packed.hpp"

#include <immintrin.h>

#include <array>
#include <bit>

#include "reference/tensor_core/instructions.hpp"

#define MOE_AVX2 __attribute__((target("avx2,fma,f16c")))

namespace moe::reference::packed {
namespace {

MOE_AVX2 inline __m256i load(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}
MOE_AVX2 inline void store(void* to, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(to), v); }

/// The exponent the f16 unit aligns with: that of the value, but no less than -14 (f16 subnormals).
MOE_AVX2 inline __m256i exponents(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i field = _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(255));
  const __m256i e = _mm256_max_epi32(_mm256_sub_epi32(field, _mm256_set1_epi32(127)), _mm256_set1_epi32(-14));
  const __m256i zero = _mm256_cmpeq_epi32(field, _mm256_setzero_si256());
  return _mm256_blendv_epi8(e, _mm256_set1_epi32(kHmmaZeroExponent), zero);
}
MOE_AVX2 inline __m256i pair(__m256i low, __m256i high) {
  return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32(high, 16));
}

/// Sixteen codes in 16-bit lanes as f16; E4M3's are 2^8 too small, which keeps its subnormals exact.
/// `special` collects lanes with NaN or infinity.
MOE_AVX2 inline __m256i f16_patterns(__m256i code, Fp8 format, __m256i& special) {
  const bool e4m3 = format == Fp8::e4m3;
  const __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi16(0x7F));
  special = _mm256_or_si256(special, _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(e4m3 ? 0x7E : 0x7B)));
  if (!e4m3) return _mm256_slli_epi16(code, 8);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(code, 8), _mm256_set1_epi16(short(0x8000)));
  return _mm256_or_si256(sign, _mm256_slli_epi16(magnitude, 7));
}

struct ValueTable {
  std::array<float, 256> value;
  std::array<std::int16_t, 256> exponent;
  std::array<bool, 256> special;
};
ValueTable make_table(Fp8 format) {
  ValueTable t;
  for (unsigned code = 0; code < 256; ++code) {
    const Number x = decode(format_of(format), code);
    t.special[code] = x.kind > NumberKind::finite;
    const int scale = x.exponent - format_of(format).fraction_bits;
    const float power = std::bit_cast<float>(std::uint32_t(127 + scale) << 23);
    t.value[code] = t.special[code] ? 0.0f : (x.negative ? -1.0f : 1.0f) * float(x.significand) * power;
    int e = x.exponent;  // as f16 an E4M3 subnormal is a normal number
    if (format == Fp8::e4m3 && x.significand != 0) e += std::bit_width(x.significand) - 1 - 3;
    t.exponent[code] = std::int16_t(x.significand != 0 ? e : kHmmaZeroExponent);
  }
  return t;
}
const ValueTable& value_table(Fp8 format) {
  static const ValueTable e4m3 = make_table(Fp8::e4m3), e5m2 = make_table(Fp8::e5m2);
  return format == Fp8::e4m3 ? e4m3 : e5m2;
}

/// 8 x 8 transposition of 32-bit elements: v[j] becomes element j of the former vectors.
MOE_AVX2 inline void transpose8(__m256i (&v)[8]) {
  __m256i t[8], u[8];
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_epi32(v[j], v[j + 1]);
    t[j + 1] = _mm256_unpackhi_epi32(v[j], v[j + 1]);
  }
  for (int j = 0; j < 8; j += 4) {
    u[j] = _mm256_unpacklo_epi64(t[j], t[j + 2]);
    u[j + 1] = _mm256_unpackhi_epi64(t[j], t[j + 2]);
    u[j + 2] = _mm256_unpacklo_epi64(t[j + 1], t[j + 3]);
    u[j + 3] = _mm256_unpackhi_epi64(t[j + 1], t[j + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm256_permute2x128_si256(u[j], u[j + 4], 0x20);
    v[j + 4] = _mm256_permute2x128_si256(u[j], u[j + 4], 0x31);
  }
}

MOE_AVX2 inline unsigned lane_mask(__m256i lanes) {
  return unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
}

/// Two neighbouring operands (bytes 2h, 2h + 1 of a dword) of 8 columns -> operands i, i + 1 of step s.
MOE_AVX2 inline void store_pair(HmmaGroup& g, int s, int i, int column, __m256 first, __m256 second) {
  _mm256_store_ps(g.value[s][i] + column, first);
  _mm256_store_ps(g.value[s][i + 1] + column, second);
  store(g.exponent[s][i / 2] + column, pair(exponents(first), exponents(second)));
}

template <HmmaOrder order>
MOE_AVX2 std::uint16_t pack_columns(Fp8 format, HmmaGroup& g, int column) {
  __m256i v[8];
  for (int j = 0; j < 8; ++j) v[j] = load(g.codes.code[column + j]);
  transpose8(v);
  __m256i special = _mm256_setzero_si256();
  const __m256i byte = _mm256_set1_epi16(0xFF), low16 = _mm256_set1_epi32(0xFFFF);
  const __m256 scale = _mm256_set1_ps(format == Fp8::e4m3 ? 256.0f : 1.0f);
  for (int j = 0; j < 8; ++j) {
    // bytes 0 and 2 of a dword, then 1 and 3
    const __m256i even = f16_patterns(_mm256_and_si256(v[j], byte), format, special);
    const __m256i odd = f16_patterns(_mm256_srli_epi16(v[j], 8), format, special);
    for (int h = 0; h < 2; ++h) {
      const __m256i two =
          h == 0 ? _mm256_packus_epi32(_mm256_and_si256(even, low16), _mm256_and_si256(odd, low16))
                 : _mm256_packus_epi32(_mm256_srli_epi32(even, 16), _mm256_srli_epi32(odd, 16));
      const __m256i both = _mm256_permute4x64_epi64(two, 0xD8);
      const __m256 first = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(both)), scale);
      const __m256 second = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(both, 1)), scale);
      if (order == HmmaOrder::contiguous)
        store_pair(g, j / 4, 4 * (j % 4) + 2 * h, column, first, second);
      else
        store_pair(g, h, 2 * j, column, first, second);
    }
  }
  // a lane of 32 bits is a column
  const __m256i plain = _mm256_cmpeq_epi32(special, _mm256_setzero_si256());
  return std::uint16_t((lane_mask(plain) ^ 0xFFu) << column);
}

/// Eight f16 as floats, with the lanes that are NaN or infinite.
MOE_AVX2 inline __m256 f16_values(__m128i half, __m256i& special) {
  const __m256i magnitude = _mm256_and_si256(_mm256_cvtepu16_epi32(half), _mm256_set1_epi32(0x7FFF));
  special = _mm256_or_si256(special, _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7BFF)));
  return _mm256_cvtph_ps(half);
}

}  // namespace

template <HmmaOrder order>
void pack_hmma_rows(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
                    std::byte* out) {
  const ValueTable& t = value_table(format);
  auto* row = reinterpret_cast<HmmaRow*>(out);
  for (int r = 0; r < rows; ++r)
    for (int k0 = 0; k0 < k; k0 += kBlockK, ++row) {
      take_codes(codes + r * stride, stride, 1, 1, k0, k, row->codes.code);
      row->codes.format = format;
      row->codes.special = false;
      for (int s = 0; s < 2; ++s)
        for (int i = 0; i < 16; ++i) {
          const std::uint8_t code = row->codes.code[hmma_k(order, s, i)];
          const std::uint32_t e = std::uint16_t(t.exponent[code]);
          row->value[s][i] = t.value[code];
          row->exponent[s][i / 2] =
              std::int32_t(i % 2 ? std::uint32_t(row->exponent[s][i / 2]) | e << 16 : e);
          row->codes.special |= t.special[code];
        }
    }
}

template <HmmaOrder order>
MOE_AVX2 void pack_hmma_group(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns,
                              int k, std::byte* out) {
  auto* group = reinterpret_cast<HmmaGroup*>(out);
  for (int k0 = 0; k0 < k; k0 += kBlockK, ++group) {
    take_codes(codes, stride, columns, kGroupColumns, k0, k, group->codes.code[0]);
    group->codes.format = format;
    group->codes.special =
        std::uint16_t(pack_columns<order>(format, *group, 0) | pack_columns<order>(format, *group, 8));
  }
}

template void pack_hmma_rows<HmmaOrder::contiguous>(Fp8, const std::uint8_t*, std::ptrdiff_t, int, int,
                                                    std::byte*);
template void pack_hmma_rows<HmmaOrder::interleaved4>(Fp8, const std::uint8_t*, std::ptrdiff_t, int, int,
                                                      std::byte*);
template void pack_hmma_group<HmmaOrder::contiguous>(Fp8, const std::uint8_t*, std::ptrdiff_t, int, int,
                                                     std::byte*);
template void pack_hmma_group<HmmaOrder::interleaved4>(Fp8, const std::uint8_t*, std::ptrdiff_t, int, int,
                                                       std::byte*);

std::uint32_t hmma_block(HmmaOrder order, const RowCodes& row, const GroupCodes& group, int column,
                         AccumulatorFormat f, std::uint32_t c) {
  for (int s = 0; s < 2; ++s) {
    std::uint16_t a[16], b[16];
    for (int i = 0; i < 16; ++i) {
      const int k = hmma_k(order, s, i);
      a[i] = fp8_to_f16(row.format, row.code[k]);
      b[i] = fp8_to_f16(group.format, group.code[column][k]);
    }
    c = hmma_k16(a, b, f, c);
  }
  return c;
}

MOE_AVX2 void pack_f16_row(const std::uint16_t* from, F16Row& to) {
  __m256i special = _mm256_setzero_si256();
  const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  // k = 2p in the low 16 bits of lane p, k = 2p + 1 in the high ones
  const __m256i high = _mm256_srli_epi32(both, 16), low = _mm256_and_si256(both, _mm256_set1_epi32(0xFFFF));
  const auto narrow = [](__m256i v) __attribute__((target("avx2,fma,f16c"))) {
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08));
  };
  const __m256 even = f16_values(narrow(low), special), odd = f16_values(narrow(high), special);
  store(to.exponent, pair(exponents(even), exponents(odd)));
  const __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
  _mm256_store_ps(to.value, _mm256_permute2f128_ps(a, b, 0x20));
  _mm256_store_ps(to.value + 8, _mm256_permute2f128_ps(a, b, 0x31));
  to.special = lane_mask(special) != 0;
}

MOE_AVX2 void pack_f16_columns(const std::uint16_t* from, F16Columns& to) {
  __m256i v[8];  // two k a dword: after the transposition v[p] holds k = 2p, 2p + 1 of all columns
  for (int j = 0; j < 8; ++j) v[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 16 * j));
  transpose8(v);
  __m256i special = _mm256_setzero_si256();
  for (int p = 0; p < 8; ++p) {
    const __m256i low = _mm256_and_si256(v[p], _mm256_set1_epi32(0xFFFF)), high = _mm256_srli_epi32(v[p], 16);
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    const __m256 even = f16_values(_mm256_castsi256_si128(narrow), special);
    const __m256 odd = f16_values(_mm256_extracti128_si256(narrow, 1), special);
    _mm256_store_ps(to.value[2 * p], even);
    _mm256_store_ps(to.value[2 * p + 1], odd);
    store(to.exponent[p], pair(exponents(even), exponents(odd)));
  }
  to.special = std::uint16_t(lane_mask(special));
}

}  // namespace moe::reference::packed
