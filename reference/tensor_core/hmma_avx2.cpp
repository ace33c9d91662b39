// HMMA.16816 with AVX2: a product of two f16 is exact in f32; scaled by 2^(25 - emax) its truncation toward
// zero is the float-to-integer conversion; the integers add exactly.
#include <immintrin.h>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/hmma_packed.hpp"
#include "reference/tensor_core/instructions.hpp"

#define MOE_AVX2 __attribute__((target("avx2,fma,f16c")))
#define MOE_AVX2_INLINE MOE_AVX2 inline __attribute__((always_inline))

namespace moe::reference {
namespace {

using packed::HmmaGroup;
using packed::HmmaRow;

constexpr int kLowest = -100;  // below it 2^(25 - emax) leaves the normal floats: element by element
constexpr int kNoExponent = -3000;

MOE_AVX2_INLINE __m256i load(const std::int32_t* p) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
}

/// One 16-wide operand of a row; those of 8 columns stand kStride lanes apart.
struct Row {
  const float* value;
  const std::int32_t* exponent;
};

/// The largest exponent of non-zero products, 8 columns.
template <int kStride>
MOE_AVX2_INLINE __m256i largest_exponent(const Row& row, const std::int32_t* columns) {
  __m256i max = _mm256_set1_epi16(kNoExponent);
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p)
    max = _mm256_max_epi16(max,
                           _mm256_add_epi16(_mm256_set1_epi32(row.exponent[p]), load(columns + p * kStride)));
  return _mm256_max_epi32(_mm256_srai_epi32(max, 16), _mm256_srai_epi32(_mm256_slli_epi32(max, 16), 16));
}

/// The f32 accumulator in units of 2^(emax - 25), and which elements the fast arithmetic does not cover.
struct Accumulator {
  __m256i cut, emax, slow;
};
MOE_AVX2_INLINE Accumulator align_accumulator(__m256i c, __m256i products) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i field = _mm256_and_si256(_mm256_srli_epi32(c, 23), _mm256_set1_epi32(255));
  const __m256i hidden = _mm256_andnot_si256(_mm256_cmpeq_epi32(field, zero), _mm256_set1_epi32(1 << 23));
  const __m256i s = _mm256_or_si256(_mm256_and_si256(c, _mm256_set1_epi32(0x7FFFFF)), hidden);
  const __m256i nonzero = _mm256_cmpgt_epi32(s, zero);
  __m256i e = _mm256_sub_epi32(_mm256_max_epi32(field, _mm256_set1_epi32(1)), _mm256_set1_epi32(127));
  e = _mm256_blendv_epi8(_mm256_set1_epi32(kNoExponent), e, nonzero);
  const __m256i largest = _mm256_max_epi32(products, e);
  Accumulator a;
  a.emax = _mm256_max_epi32(largest, _mm256_set1_epi32(kLowest));
  const __m256i tiny = _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(kLowest), largest), nonzero);
  a.slow = _mm256_or_si256(_mm256_cmpeq_epi32(field, _mm256_set1_epi32(255)), tiny);
  const __m256i magnitude = _mm256_srlv_epi32(_mm256_slli_epi32(s, 2), _mm256_sub_epi32(a.emax, e));
  const __m256i negative = _mm256_srai_epi32(c, 31);
  a.cut = _mm256_sub_epi32(_mm256_xor_si256(magnitude, negative), negative);
  return a;
}

/// sum * 2^(emax - 25) as f32, toward zero: the conversion rounds to nearest, so a magnitude that grew steps
/// back.
MOE_AVX2_INLINE __m256i truncate(__m256i sum, __m256i emax) {
  const __m256i magnitude = _mm256_abs_epi32(sum);
  const __m256 nearest = _mm256_cvtepi32_ps(magnitude);
  const __m256i grew =
      _mm256_cmpgt_epi32(_mm256_sub_epi32(_mm256_cvttps_epi32(nearest), magnitude), _mm256_setzero_si256());
  const __m256i down = _mm256_add_epi32(_mm256_castps_si256(nearest), grew);
  const __m256i unit = _mm256_slli_epi32(_mm256_add_epi32(emax, _mm256_set1_epi32(127 - 25)), 23);
  const __m256i value =
      _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(down), _mm256_castsi256_ps(unit)));
  return _mm256_or_si256(value, _mm256_and_si256(sum, _mm256_set1_epi32(int(0x80000000u))));
}

/// Whether a + b left the 32-bit integers.
MOE_AVX2_INLINE __m256i overflowed(__m256i a, __m256i b, __m256i sum) {
  return _mm256_srai_epi32(_mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum)), 31);
}

struct Result {
  __m256i bits, slow;
};

/// One step of one row and 8 columns. kWide: operands with 11-bit significands, whose 17 terms may pass 2^31
/// (16 FP8 products stay below 0.9 * 2^31).
template <bool kWide, int kStride>
MOE_AVX2_INLINE Result step(const Row& row, const float* values, const std::int32_t* exponents, __m256i c) {
  const Accumulator acc = align_accumulator(c, largest_exponent<kStride>(row, exponents));
  const __m256 scale =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(127 + 25), acc.emax), 23));
  __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    const __m256 product = _mm256_mul_ps(_mm256_set1_ps(row.value[k]), _mm256_load_ps(values + k * kStride));
    sum[k % 2] = _mm256_add_epi32(sum[k % 2], _mm256_cvttps_epi32(_mm256_mul_ps(product, scale)));
  }
  const __m256i products = _mm256_add_epi32(sum[0], sum[1]), total = _mm256_add_epi32(products, acc.cut);
  Result r{truncate(total, acc.emax), acc.slow};
  if constexpr (kWide)
    r.slow = _mm256_or_si256(
        r.slow, _mm256_or_si256(overflowed(sum[0], sum[1], products), overflowed(products, acc.cut, total)));
  return r;
}

/// The same with an f16 accumulator, as floats: it is one more term of the sum, which is rounded once, to
/// nearest even. Products and f16 numbers keep emax above kLowest by themselves.
template <int kStride>
MOE_AVX2_INLINE __m256 step_f16(const Row& row, const float* values, const std::int32_t* exponents,
                                __m256 c) {
  const __m256i field =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(c), 23), _mm256_set1_epi32(255));
  const __m256i exponent =
      _mm256_max_epi32(_mm256_sub_epi32(field, _mm256_set1_epi32(127)), _mm256_set1_epi32(-14));
  const __m256i e = _mm256_blendv_epi8(exponent, _mm256_set1_epi32(kLowest),
                                       _mm256_cmpeq_epi32(field, _mm256_setzero_si256()));
  const __m256i emax = _mm256_max_epi32(largest_exponent<kStride>(row, exponents), e);
  const __m256 scale =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(127 + 25), emax), 23));
  __m256i sum[2] = {_mm256_cvttps_epi32(_mm256_mul_ps(c, scale)), _mm256_setzero_si256()};
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    const __m256 product = _mm256_mul_ps(_mm256_set1_ps(row.value[k]), _mm256_load_ps(values + k * kStride));
    sum[k % 2] = _mm256_add_epi32(sum[k % 2], _mm256_cvttps_epi32(_mm256_mul_ps(product, scale)));
  }
  const __m256i total = _mm256_add_epi32(sum[0], sum[1]), size = _mm256_abs_epi32(total);
  // 24 bits are exact in f32: of a longer magnitude the low ones leave a mark that no rounding to f16 misses
  const __m256i low = _mm256_and_si256(size, _mm256_set1_epi32(0xFF));
  const __m256i rest =
      _mm256_andnot_si256(_mm256_cmpeq_epi32(low, _mm256_setzero_si256()), _mm256_set1_epi32(0x100));
  const __m256i marked = _mm256_or_si256(_mm256_andnot_si256(_mm256_set1_epi32(0xFF), size), rest);
  const __m256i is_long = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0xFFFFFF));
  const __m256 unit =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(emax, _mm256_set1_epi32(127 - 25)), 23));
  const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_blendv_epi8(size, marked, is_long)), unit);
  const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(total), _mm256_set1_ps(-0.0f));
  return _mm256_cvtph_ps(
      _mm256_cvtps_ph(_mm256_or_ps(value, sign), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/// Elements outside the fast arithmetic: the whole k32 block (both steps) again.
MOE_AVX2 __attribute__((noinline)) void recompute(HmmaOrder order, AccumulatorFormat format,
                                                  const HmmaRow& row, const HmmaGroup& group, int column,
                                                  __m256i from, __m256i& to, unsigned which) {
  alignas(32) std::uint32_t c[8], d[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(c), from);
  _mm256_store_si256(reinterpret_cast<__m256i*>(d), to);
  for (; which != 0; which &= which - 1) {
    const int j = __builtin_ctz(which);
    d[j] = packed::hmma_block(order, row.codes, group.codes, column + j, format, c[j]);
  }
  to = _mm256_load_si256(reinterpret_cast<const __m256i*>(d));
}

template <HmmaOrder order>
MOE_AVX2 void run(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                  int blocks, float* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const HmmaGroup*>(group);
  // rows inside, k outside: neighbouring steps do not wait for each other
  for (int b = 0; b < blocks; ++b) {
    const HmmaGroup& g = columns[b];
    for (int r = 0; r < n_rows; ++r) {
      const HmmaRow& row = reinterpret_cast<const HmmaRow*>(rows + r * row_stride)[b];
      for (int h = 0; h < kGroupColumns; h += 8) {
        auto* d = reinterpret_cast<__m256i*>(acc + r * acc_stride + h);
        const __m256i c = _mm256_loadu_si256(d);
        const Result first = step<false, kGroupColumns>(Row{row.value[0], row.exponent[0]}, g.value[0][0] + h,
                                                        g.exponent[0][0] + h, c);
        const Result second = step<false, kGroupColumns>(Row{row.value[1], row.exponent[1]},
                                                         g.value[1][0] + h, g.exponent[1][0] + h, first.bits);
        unsigned slow =
            unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_or_si256(first.slow, second.slow))));
        slow |= row.codes.special ? 0xFFu : g.codes.special >> h & 0xFFu;
        __m256i next = second.bits;
        if (__builtin_expect(slow != 0, 0))
          recompute(order, AccumulatorFormat::f32, row, g, h, c, next, slow);
        _mm256_storeu_si256(d, next);
      }
    }
  }
}

template <HmmaOrder order>
MOE_AVX2 void run_f16(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                      int blocks, std::uint16_t* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const HmmaGroup*>(group);
  for (int b = 0; b < blocks; ++b) {
    const HmmaGroup& g = columns[b];
    for (int r = 0; r < n_rows; ++r) {
      const HmmaRow& row = reinterpret_cast<const HmmaRow*>(rows + r * row_stride)[b];
      for (int h = 0; h < kGroupColumns; h += 8) {
        auto* d = reinterpret_cast<__m128i*>(acc + r * acc_stride + h);
        const __m128i from = _mm_loadu_si128(d);
        const __m256 c = _mm256_cvtph_ps(from);
        const __m256 first = step_f16<kGroupColumns>(Row{row.value[0], row.exponent[0]}, g.value[0][0] + h,
                                                     g.exponent[0][0] + h, c);
        const __m256 second = step_f16<kGroupColumns>(Row{row.value[1], row.exponent[1]}, g.value[1][0] + h,
                                                      g.exponent[1][0] + h, first);
        // an accumulator that is no finite number, given or grown; x - x is NaN then
        const __m256 doubt = _mm256_add_ps(_mm256_sub_ps(c, c), _mm256_sub_ps(first, first));
        unsigned slow = unsigned(_mm256_movemask_ps(_mm256_cmp_ps(doubt, doubt, _CMP_UNORD_Q)));
        slow |= row.codes.special ? 0xFFu : g.codes.special >> h & 0xFFu;
        // no -0: what is too small for f16 is +0
        const __m256 result = _mm256_add_ps(second, _mm256_setzero_ps());
        const __m128i half = _mm256_cvtps_ph(result, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __m256i next = _mm256_cvtepu16_epi32(half);
        if (__builtin_expect(slow != 0, 0))
          recompute(order, AccumulatorFormat::f16, row, g, h, _mm256_cvtepu16_epi32(from), next, slow);
        const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(next, next), 0x08);
        _mm_storeu_si128(d, _mm256_castsi256_si128(narrow));
      }
    }
  }
}

}  // namespace

constinit const ChainKernel kHmmaAvx2[2] = {
    {sizeof(HmmaRow), sizeof(HmmaGroup), packed::pack_hmma_rows<HmmaOrder::contiguous>,
     packed::pack_hmma_group<HmmaOrder::contiguous>, run<HmmaOrder::contiguous>,
     run_f16<HmmaOrder::contiguous>},
    {sizeof(HmmaRow), sizeof(HmmaGroup), packed::pack_hmma_rows<HmmaOrder::interleaved4>,
     packed::pack_hmma_group<HmmaOrder::interleaved4>, run<HmmaOrder::interleaved4>,
     run_f16<HmmaOrder::interleaved4>}};

MOE_AVX2 void mma_f16_avx2(const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d) {
  packed::F16Columns columns;
  packed::pack_f16_columns(b, columns);
  packed::F16Row row[16];
  for (int r = 0; r < 16; ++r) packed::pack_f16_row(a + 16 * r, row[r]);
  for (int r = 0; r < 16; ++r) {
    const __m256i from = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c + 8 * r));
    const Result result =
        step<true, 8>(Row{row[r].value, row[r].exponent}, columns.value[0], columns.exponent[0], from);
    unsigned slow = unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(result.slow)));
    slow |= row[r].special ? 0xFFu : columns.special;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + 8 * r), result.bits);
    if (__builtin_expect(slow == 0, 1)) continue;
    alignas(32) std::uint32_t before[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(before), from);
    for (; slow != 0; slow &= slow - 1) {
      const int j = __builtin_ctz(slow);
      const std::uint32_t bits = hmma_k16(a + 16 * r, b + 16 * j, AccumulatorFormat::f32, before[j]);
      __builtin_memcpy(d + 8 * r + j, &bits, 4);
    }
  }
}

}  // namespace moe::reference
