// HMMA.16816 with AVX-512 F: as hmma_avx2.cpp, 16 columns a vector and a conversion that truncates by itself.
// GCC 12 takes the undefined vectors inside its own AVX-512 intrinsics for faults (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/hmma_packed.hpp"
#include "reference/tensor_core/instructions.hpp"

#define MOE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define MOE_AVX512_INLINE MOE_AVX512 inline __attribute__((always_inline))

namespace moe::reference {
namespace {

using packed::HmmaGroup;
using packed::HmmaRow;

constexpr int kLowest = -100;  // below it 2^(25 - emax) leaves the normal floats: element by element
constexpr int kNoExponent = -3000;

struct Row {
  const float* value;
  const std::int32_t* exponent;
};

/// The largest exponent of non-zero products, 16 columns.
MOE_AVX512_INLINE __m512i largest_exponent(const Row& row, const std::int32_t (*columns)[kGroupColumns]) {
  __m512i max = _mm512_set1_epi16(kNoExponent);
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p)
    max = _mm512_max_epi16(
        max, _mm512_add_epi16(_mm512_set1_epi32(row.exponent[p]), _mm512_load_si512(columns[p])));
  return _mm512_max_epi32(_mm512_srai_epi32(max, 16), _mm512_srai_epi32(_mm512_slli_epi32(max, 16), 16));
}

/// The f32 accumulator in units of 2^(emax - 25), and which elements the fast arithmetic does not cover.
struct Accumulator {
  __m512i cut, emax;
  __mmask16 slow;
};
MOE_AVX512_INLINE Accumulator align_accumulator(__m512i c, __m512i products) {
  const __m512i field = _mm512_and_si512(_mm512_srli_epi32(c, 23), _mm512_set1_epi32(255));
  __m512i s = _mm512_and_si512(c, _mm512_set1_epi32(0x7FFFFF));
  s = _mm512_mask_or_epi32(s, _mm512_test_epi32_mask(field, field), s, _mm512_set1_epi32(1 << 23));
  const __mmask16 nonzero = _mm512_test_epi32_mask(s, s);
  const __m512i exponent =
      _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(127));
  const __m512i e = _mm512_mask_blend_epi32(nonzero, _mm512_set1_epi32(kNoExponent), exponent);
  const __m512i largest = _mm512_max_epi32(products, e);
  Accumulator a;
  a.emax = _mm512_max_epi32(largest, _mm512_set1_epi32(kLowest));
  a.slow = __mmask16(_mm512_cmpeq_epi32_mask(field, _mm512_set1_epi32(255)) |
                     _mm512_mask_cmplt_epi32_mask(nonzero, largest, _mm512_set1_epi32(kLowest)));
  const __m512i magnitude = _mm512_srlv_epi32(_mm512_slli_epi32(s, 2), _mm512_sub_epi32(a.emax, e));
  a.cut = _mm512_mask_sub_epi32(magnitude, _mm512_movepi32_mask(c), _mm512_setzero_si512(), magnitude);
  return a;
}

struct Result {
  __m512i bits;
  __mmask16 slow;
};

/// One step of one row and 16 columns; 16 products of FP8 values stay below 0.9 * 2^31.
MOE_AVX512_INLINE Result step(const Row& row, const float (*values)[kGroupColumns],
                              const std::int32_t (*exponents)[kGroupColumns], __m512i c) {
  const Accumulator acc = align_accumulator(c, largest_exponent(row, exponents));
  const __m512 scale =
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127 + 25), acc.emax), 23));
  __m512i sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    const __m512 product = _mm512_mul_ps(_mm512_set1_ps(row.value[k]), _mm512_load_ps(values[k]));
    sum[k % 2] = _mm512_add_epi32(sum[k % 2], _mm512_cvttps_epi32(_mm512_mul_ps(product, scale)));
  }
  const __m512i products = _mm512_add_epi32(sum[0], sum[1]), total = _mm512_add_epi32(products, acc.cut);
  const __m512 cut = _mm512_cvt_roundepi32_ps(total, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m512i unit = _mm512_slli_epi32(_mm512_add_epi32(acc.emax, _mm512_set1_epi32(127 - 25)), 23);
  return {_mm512_castps_si512(_mm512_mul_ps(cut, _mm512_castsi512_ps(unit))), acc.slow};
}

/// The same with an f16 accumulator, as floats: it is one more term of the sum, which is rounded once, to
/// nearest even. Products and f16 numbers keep emax above kLowest by themselves.
MOE_AVX512_INLINE __m512 step_f16(const Row& row, const float (*values)[kGroupColumns],
                                  const std::int32_t (*exponents)[kGroupColumns], __m512 c) {
  const __m512i field =
      _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(c), 23), _mm512_set1_epi32(255));
  const __m512i exponent =
      _mm512_max_epi32(_mm512_sub_epi32(field, _mm512_set1_epi32(127)), _mm512_set1_epi32(-14));
  const __m512i e =
      _mm512_mask_blend_epi32(_mm512_test_epi32_mask(field, field), _mm512_set1_epi32(kLowest), exponent);
  const __m512i emax = _mm512_max_epi32(largest_exponent(row, exponents), e);
  const __m512 scale =
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127 + 25), emax), 23));
  __m512i sum[2] = {_mm512_cvttps_epi32(_mm512_mul_ps(c, scale)), _mm512_setzero_si512()};
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    const __m512 product = _mm512_mul_ps(_mm512_set1_ps(row.value[k]), _mm512_load_ps(values[k]));
    sum[k % 2] = _mm512_add_epi32(sum[k % 2], _mm512_cvttps_epi32(_mm512_mul_ps(product, scale)));
  }
  const __m512i total = _mm512_add_epi32(sum[0], sum[1]);
  // toward zero, and what is cut leaves a mark in the last of 24 bits that no rounding to f16 misses
  const __m512 cut = _mm512_cvt_roundepi32_ps(total, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask16 inexact = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), total);
  const __m512i bits = _mm512_castps_si512(cut);
  const __m512 marked = _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, inexact, bits, _mm512_set1_epi32(1)));
  const __m512i unit = _mm512_slli_epi32(_mm512_add_epi32(emax, _mm512_set1_epi32(127 - 25)), 23);
  return _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_mul_ps(marked, _mm512_castsi512_ps(unit)),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/// Elements outside the fast arithmetic: the whole k32 block (both steps) again.
MOE_AVX512 __attribute__((noinline)) __m512i recompute(HmmaOrder order, AccumulatorFormat format,
                                                       const HmmaRow& row, const HmmaGroup& group,
                                                       __m512i from, __m512i to, unsigned which) {
  alignas(64) std::uint32_t c[16], d[16];
  _mm512_store_si512(c, from);
  _mm512_store_si512(d, to);
  for (; which != 0; which &= which - 1) {
    const int j = __builtin_ctz(which);
    d[j] = packed::hmma_block(order, row.codes, group.codes, j, format, c[j]);
  }
  return _mm512_load_si512(d);
}

template <HmmaOrder order>
MOE_AVX512 void run(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                    int blocks, float* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const HmmaGroup*>(group);
  // rows inside, k outside: neighbouring steps do not wait for each other
  for (int b = 0; b < blocks; ++b) {
    const HmmaGroup& g = columns[b];
    for (int r = 0; r < n_rows; ++r) {
      const HmmaRow& row = reinterpret_cast<const HmmaRow*>(rows + r * row_stride)[b];
      float* d = acc + r * acc_stride;
      const __m512i c = _mm512_loadu_si512(d);
      const Result first = step(Row{row.value[0], row.exponent[0]}, g.value[0], g.exponent[0], c);
      const Result second = step(Row{row.value[1], row.exponent[1]}, g.value[1], g.exponent[1], first.bits);
      const unsigned slow = first.slow | second.slow | g.codes.special | (row.codes.special ? 0xFFFFu : 0u);
      __m512i next = second.bits;
      if (__builtin_expect(slow != 0, 0))
        next = recompute(order, AccumulatorFormat::f32, row, g, c, next, slow);
      _mm512_storeu_si512(d, next);
    }
  }
}

template <HmmaOrder order>
MOE_AVX512 void run_f16(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                        int blocks, std::uint16_t* acc, std::ptrdiff_t acc_stride) {
  const auto* columns = reinterpret_cast<const HmmaGroup*>(group);
  for (int b = 0; b < blocks; ++b) {
    const HmmaGroup& g = columns[b];
    for (int r = 0; r < n_rows; ++r) {
      const HmmaRow& row = reinterpret_cast<const HmmaRow*>(rows + r * row_stride)[b];
      auto* d = reinterpret_cast<__m256i*>(acc + r * acc_stride);
      const __m256i from = _mm256_loadu_si256(d);
      const __m512 c = _mm512_cvtph_ps(from);
      const __m512 first = step_f16(Row{row.value[0], row.exponent[0]}, g.value[0], g.exponent[0], c);
      const __m512 second = step_f16(Row{row.value[1], row.exponent[1]}, g.value[1], g.exponent[1], first);
      // an accumulator that is no finite number, given or grown; x - x is NaN then
      const __m512 doubt = _mm512_add_ps(_mm512_sub_ps(c, c), _mm512_sub_ps(first, first));
      const unsigned slow = unsigned(_mm512_cmp_ps_mask(doubt, doubt, _CMP_UNORD_Q)) | g.codes.special |
                            (row.codes.special ? 0xFFFFu : 0u);
      // no -0: what is too small for f16 is +0
      __m256i next = _mm512_cvtps_ph(_mm512_add_ps(second, _mm512_setzero_ps()),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      if (__builtin_expect(slow != 0, 0))
        next =
            _mm512_cvtepi32_epi16(recompute(order, AccumulatorFormat::f16, row, g,
                                            _mm512_cvtepu16_epi32(from), _mm512_cvtepu16_epi32(next), slow));
      _mm256_storeu_si256(d, next);
    }
  }
}

}  // namespace

constinit const ChainKernel kHmmaAvx512[2] = {
    {sizeof(HmmaRow), sizeof(HmmaGroup), packed::pack_hmma_rows<HmmaOrder::contiguous>,
     packed::pack_hmma_group<HmmaOrder::contiguous>, run<HmmaOrder::contiguous>,
     run_f16<HmmaOrder::contiguous>},
    {sizeof(HmmaRow), sizeof(HmmaGroup), packed::pack_hmma_rows<HmmaOrder::interleaved4>,
     packed::pack_hmma_group<HmmaOrder::interleaved4>, run<HmmaOrder::interleaved4>,
     run_f16<HmmaOrder::interleaved4>}};

}  // namespace moe::reference
