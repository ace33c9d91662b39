// The wgmma chain with AVX2. There is no shift by a count a lane, so products are cut by a multiplication:
// with t = 15 - (emax - e), the upper half of (product * 2^8) * 2^t is product * 2^7 shifted right by emax -
// e. The factors 2^t come from a byte shuffle: an exponent stands in both bytes of its int16, and the upper
// byte is looked up at t - 8.
#include <immintrin.h>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/packed.hpp"

#define MOE_AVX2 __attribute__((target("avx2,fma,f16c")))

namespace moe::reference {
namespace {

using packed::kPairs;
using packed::WgmmaGroup;
using packed::WgmmaRow;

constexpr int kNoExponent = -3000;
constexpr int kLowest = -100;  // below it 2^(emax - 13) leaves the normal floats: element by element

struct Decoded {
  __m256i magnitude, exponent, sign;  // exponent twice as int8 (-128 for zero), sign +1 or -1
  bool special;
  __m256i special_lanes;
};

/// 16 codes in int16 lanes. Significands have 3 fraction bits in both formats (E5M2's are doubled).
MOE_AVX2 inline Decoded decode16(__m256i code, Fp8 format) {
  const __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi16(0x7F));
  __m256i field, fraction, bias;
  Decoded d;
  if (format == Fp8::e4m3) {
    field = _mm256_srli_epi16(magnitude, 3);
    fraction = _mm256_and_si256(magnitude, _mm256_set1_epi16(7));
    bias = _mm256_set1_epi16(7);
    d.special_lanes = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F));
  } else {
    field = _mm256_srli_epi16(magnitude, 2);
    fraction = _mm256_slli_epi16(_mm256_and_si256(magnitude, _mm256_set1_epi16(3)), 1);
    bias = _mm256_set1_epi16(15);
    d.special_lanes = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7B));
  }
  d.special = !_mm256_testz_si256(d.special_lanes, d.special_lanes);
  const __m256i zero = _mm256_setzero_si256();
  const __m256i normal = _mm256_cmpgt_epi16(field, zero);
  d.magnitude = _mm256_add_epi16(fraction, _mm256_and_si256(normal, _mm256_set1_epi16(8)));
  __m256i e = _mm256_sub_epi16(_mm256_max_epi16(field, _mm256_set1_epi16(1)), bias);
  e = _mm256_blendv_epi8(e, _mm256_set1_epi16(-128), _mm256_cmpeq_epi16(magnitude, zero));
  d.exponent = _mm256_or_si256(_mm256_slli_epi16(e, 8), _mm256_and_si256(e, _mm256_set1_epi16(0xFF)));
  const __m256i positive = _mm256_cmpeq_epi16(_mm256_and_si256(code, _mm256_set1_epi16(0x80)), zero);
  d.sign = _mm256_or_si256(_mm256_xor_si256(positive, _mm256_set1_epi16(-1)), _mm256_set1_epi16(1));
  return d;
}

MOE_AVX2 inline void store(std::int32_t* to, __m256i v) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), v);
}
MOE_AVX2 inline __m256i load(const std::int32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

MOE_AVX2 inline bool pack_row(Fp8 format, WgmmaRow& row) {
  const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(row.codes.code));
  const __m256i even = _mm256_and_si256(codes, _mm256_set1_epi16(0xFF)), odd = _mm256_srli_epi16(codes, 8);
  const __m256i low = _mm256_unpacklo_epi32(even, odd), high = _mm256_unpackhi_epi32(even, odd);
  const __m256i half[2] = {_mm256_permute2x128_si256(low, high, 0x20),
                           _mm256_permute2x128_si256(low, high, 0x31)};
  bool special = false;
  for (int h = 0; h < 2; ++h) {
    const Decoded d = decode16(half[h], format);
    store(row.magnitude + 8 * h, d.magnitude);
    store(row.exponent + 8 * h, d.exponent);
    store(row.sign + 8 * h, d.sign);
    special |= d.special;
  }
  return special;
}

MOE_AVX2 void pack_rows(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
                        std::byte* out) {
  auto* row = reinterpret_cast<WgmmaRow*>(out);
  for (int r = 0; r < rows; ++r)
    for (int k0 = 0; k0 < k; k0 += kBlockK, ++row) {
      packed::take_codes(codes + r * stride, stride, 1, 1, k0, k, row->codes.code);
      row->codes.format = format;
      row->codes.special = pack_row(format, *row);
    }
}

MOE_AVX2 inline void pack_dword(Fp8 format, __m256i dword, WgmmaGroup& g, int p, int column,
                                std::uint16_t& special) {
  const __m256i half[2] = {_mm256_and_si256(dword, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(dword, 8)};
  for (int h = 0; h < 2; ++h) {
    const Decoded d = decode16(half[h], format);
    store(g.magnitude[p + h] + column, _mm256_slli_epi16(d.magnitude, 8));
    store(g.exponent[p + h] + column, d.exponent);
    store(g.sign[p + h] + column, d.sign);
    if (d.special) {
      const __m256i none = _mm256_cmpeq_epi32(d.special_lanes, _mm256_setzero_si256());
      special |= std::uint16_t((~_mm256_movemask_ps(_mm256_castsi256_ps(none)) & 0xFF) << column);
    }
  }
}

/// 8 columns: an 8 x 8 transposition of dwords, then each dword gives two pairs.
MOE_AVX2 inline std::uint16_t pack_columns(Fp8 format, WgmmaGroup& g, int column) {
  __m256i v[8], t[8];
  for (int j = 0; j < 8; ++j)
    v[j] = _mm256_load_si256(reinterpret_cast<const __m256i*>(g.codes.code[column + j]));
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_epi32(v[j], v[j + 1]);
    t[j + 1] = _mm256_unpackhi_epi32(v[j], v[j + 1]);
  }
  for (int j = 0; j < 8; j += 4) {
    v[j] = _mm256_unpacklo_epi64(t[j], t[j + 2]);
    v[j + 1] = _mm256_unpackhi_epi64(t[j], t[j + 2]);
    v[j + 2] = _mm256_unpacklo_epi64(t[j + 1], t[j + 3]);
    v[j + 3] = _mm256_unpackhi_epi64(t[j + 1], t[j + 3]);
  }
  std::uint16_t special = 0;
  for (int j = 0; j < 4; ++j) {
    pack_dword(format, _mm256_permute2x128_si256(v[j], v[j + 4], 0x20), g, 2 * j, column, special);
    pack_dword(format, _mm256_permute2x128_si256(v[j], v[j + 4], 0x31), g, 2 * j + 8, column, special);
  }
  return special;
}

MOE_AVX2 void pack_group(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns, int k,
                         std::byte* out) {
  auto* group = reinterpret_cast<WgmmaGroup*>(out);
  for (int k0 = 0; k0 < k; k0 += kBlockK, ++group) {
    packed::take_codes(codes, stride, columns, kGroupColumns, k0, k, group->codes.code[0]);
    group->codes.format = format;
    group->codes.special = std::uint16_t(pack_columns(format, *group, 0) | pack_columns(format, *group, 8));
  }
}

/// The accumulator of 8 columns as the adder sees it, significand with 23 (f32) or 13 (f16) fraction bits;
/// masks are all ones or zero.
struct Accumulator {
  __m256i significand, exponent, negative, nonzero, special;
};

template <bool kF16>
MOE_AVX2 inline Accumulator decode_accumulator(__m256i c) {
  constexpr int fraction = kF16 ? 10 : 23, top = kF16 ? 31 : 255, bias = kF16 ? 15 : 127;
  const __m256i zero = _mm256_setzero_si256();
  Accumulator a;
  const __m256i field = _mm256_and_si256(_mm256_srli_epi32(c, fraction), _mm256_set1_epi32(top));
  const __m256i hidden =
      _mm256_andnot_si256(_mm256_cmpeq_epi32(field, zero), _mm256_set1_epi32(1 << fraction));
  const __m256i s = _mm256_or_si256(_mm256_and_si256(c, _mm256_set1_epi32((1 << fraction) - 1)), hidden);
  a.nonzero = _mm256_cmpgt_epi32(s, zero);
  a.significand = kF16 ? _mm256_slli_epi32(s, 3) : s;
  const __m256i e = _mm256_sub_epi32(_mm256_max_epi32(field, _mm256_set1_epi32(1)), _mm256_set1_epi32(bias));
  a.exponent = _mm256_blendv_epi8(_mm256_set1_epi32(kNoExponent), e, a.nonzero);
  a.negative = _mm256_srai_epi32(kF16 ? _mm256_slli_epi32(c, 16) : c, 31);
  a.special = _mm256_cmpeq_epi32(field, _mm256_set1_epi32(top));
  return a;
}

/// Elements outside the fast arithmetic, one by one.
template <bool kF16>
MOE_AVX2 __attribute__((noinline)) __m256i recompute(const WgmmaRow& row, const WgmmaGroup& group, int column,
                                                     __m256i c, __m256i result, unsigned which) {
  alignas(32) std::uint32_t from[8], to[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(from), c);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), result);
  for (; which != 0; which &= which - 1) {
    const int j = __builtin_ctz(which);
    to[j] = wgmma_k32(row.codes.format, row.codes.code, group.codes.format, group.codes.code[column + j],
                      kF16 ? AccumulatorFormat::f16 : AccumulatorFormat::f32, from[j]);
  }
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(to));
}

/// emax of 8 columns: from the largest exponent pairs and the accumulator; which columns are tiny.
struct Alignment {
  __m256i emax, tiny, base;  // base: emax - 15 in the low byte, emax - 7 in the high byte of every int16
};
MOE_AVX2 inline Alignment alignment(__m256i pairs, const Accumulator& acc) {
  const __m256i bytes = _mm256_max_epi8(pairs, _mm256_srli_epi32(pairs, 16));
  const __m256i products = _mm256_srai_epi32(_mm256_slli_epi32(bytes, 24), 24);
  const __m256i largest = _mm256_max_epi32(products, acc.exponent);
  Alignment a;
  a.tiny = _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(kLowest), largest), acc.nonzero);
  a.emax = _mm256_max_epi32(largest, _mm256_set1_epi32(kLowest));
  // products reach 2^30: beyond 60 the accumulator hides them all, and the byte must not wrap
  const __m256i e =
      _mm256_and_si256(_mm256_min_epi32(a.emax, _mm256_set1_epi32(60)), _mm256_set1_epi32(0xFF));
  const __m256i twice =
      _mm256_shuffle_epi8(e, _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0,
                                              4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
  a.base = _mm256_sub_epi8(twice, _mm256_set1_epi16((7 << 8) | 15));
  return a;
}

/// Adds the accumulator, rounds once: bit patterns of the result.
template <bool kF16>
MOE_AVX2 inline __m256i finish(__m256i sum, const Accumulator& acc, const Alignment& at) {
  const __m256i drop =
      _mm256_add_epi32(_mm256_sub_epi32(at.emax, acc.exponent), _mm256_set1_epi32(kF16 ? 0 : 10));
  const __m256i cut = _mm256_srlv_epi32(acc.significand, drop);
  sum = _mm256_add_epi32(sum, _mm256_sub_epi32(_mm256_xor_si256(cut, acc.negative), acc.negative));
  // |sum| < 2^24: the conversion and the scaling are exact, what follows is the one rounding
  const __m256i unit = _mm256_slli_epi32(_mm256_add_epi32(at.emax, _mm256_set1_epi32(127 - 13)), 23);
  const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_castsi256_ps(unit));
  if constexpr (kF16) {
    const __m256i half =
        _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return _mm256_andnot_si256(_mm256_cmpeq_epi32(half, _mm256_set1_epi32(0x8000)), half);  // -0 becomes +0
  } else {
    return _mm256_and_si256(_mm256_castps_si256(value), _mm256_set1_epi32(~0x3FF));
  }
}

/// One k32 step of one row and 16 columns: bit patterns in, bit patterns out.
template <bool kF16>
MOE_AVX2 inline __attribute__((always_inline)) void step(const WgmmaRow& row, const WgmmaGroup& group,
                                                         __m256i (&c)[2]) {
  __m256i max[2] = {_mm256_set1_epi8(-128), _mm256_set1_epi8(-128)};
#pragma GCC unroll 16
  for (int p = 0; p < kPairs; ++p) {
    const __m256i e = _mm256_set1_epi32(row.exponent[p]);
    max[0] = _mm256_max_epi8(max[0], _mm256_adds_epi8(e, load(group.exponent[p])));
    max[1] = _mm256_max_epi8(max[1], _mm256_adds_epi8(e, load(group.exponent[p] + 8)));
  }
  const Accumulator acc[2] = {decode_accumulator<kF16>(c[0]), decode_accumulator<kF16>(c[1])};
  const Alignment at[2] = {alignment(max[0], acc[0]), alignment(max[1], acc[1])};
  const __m256i powers = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8,
                                          16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
  __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 16
  for (int p = 0; p < kPairs; ++p) {
    const __m256i e = _mm256_set1_epi32(row.exponent[p]), m = _mm256_set1_epi32(row.magnitude[p]);
    const __m256i s = _mm256_set1_epi32(row.sign[p]);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i t = _mm256_subs_epi8(_mm256_adds_epi8(e, load(group.exponent[p] + 8 * h)), at[h].base);
      const __m256i product = _mm256_mullo_epi16(m, load(group.magnitude[p] + 8 * h));
      const __m256i cut = _mm256_mulhi_epu16(product, _mm256_shuffle_epi8(powers, t));
      sum[h] =
          _mm256_add_epi32(sum[h], _mm256_madd_epi16(cut, _mm256_sign_epi16(s, load(group.sign[p] + 8 * h))));
    }
  }
  for (int h = 0; h < 2; ++h) {
    const __m256i result = finish<kF16>(sum[h], acc[h], at[h]);
    const __m256i special = _mm256_or_si256(acc[h].special, at[h].tiny);
    unsigned slow = unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(special)));
    slow |= row.codes.special ? 0xFFu : group.codes.special >> (8 * h) & 0xFFu;
    c[h] = __builtin_expect(slow != 0, 0) ? recompute<kF16>(row, group, 8 * h, c[h], result, slow) : result;
  }
}

/// Eight accumulators from and to memory.
MOE_AVX2 inline __m256i load_accumulators(const float* d) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(d));
}
MOE_AVX2 inline __m256i load_accumulators(const std::uint16_t* d) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(d)));
}
MOE_AVX2 inline void store_accumulators(__m256i c, float* d) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(d), c);
}
MOE_AVX2 inline void store_accumulators(__m256i c, std::uint16_t* d) {
  const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(c, c), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(d), _mm256_castsi256_si128(both));
}

template <bool kF16, class T>
MOE_AVX2 void run(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                  int blocks, T* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const WgmmaGroup*>(group);
  // rows inside, k outside: neighbouring steps do not wait for each other
  for (int b = 0; b < blocks; ++b)
    for (int r = 0; r < n_rows; ++r) {
      const auto* row = reinterpret_cast<const WgmmaRow*>(rows + r * row_stride);
      T* d = acc + r * acc_stride;
      __m256i c[2] = {load_accumulators(d), load_accumulators(d + 8)};
      step<kF16>(row[b], columns[b], c);
      store_accumulators(c[0], d);
      store_accumulators(c[1], d + 8);
    }
}

}  // namespace

constinit const ChainKernel kWgmmaAvx2{sizeof(WgmmaRow), sizeof(WgmmaGroup), pack_rows,
                                       pack_group,       run<false, float>,  run<true, std::uint16_t>};

}  // namespace moe::reference
