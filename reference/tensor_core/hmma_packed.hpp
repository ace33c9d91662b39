// Who packs operands for the HMMA chains? One AVX2 code for both fast levels: values as floats (exact) and
// exponents as int16 pairs.
#pragma once
#include "reference/tensor_core/packed.hpp"

namespace moe::reference::packed {

/// The exponent of a zero: it never sets the largest exponent of a step.
inline constexpr int kHmmaZeroExponent = -1000;

/// The functions of ChainKernel for HmmaRow and HmmaGroup. Callers have AVX2 and F16C.
template <HmmaOrder order>
void pack_hmma_rows(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
                    std::byte* out);
template <HmmaOrder order>
void pack_hmma_group(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns, int k,
                     std::byte* out);

/// One element over one k32 block (two HMMA steps) by instructions.hpp.
std::uint32_t hmma_block(HmmaOrder order, const RowCodes& row, const GroupCodes& group, int column,
                         AccumulatorFormat f, std::uint32_t c);

/// One m16n8k16 operand: 16 rows of 16 f16 (or 8 columns), as values and exponent pairs of k = 2p, 2p + 1.
struct alignas(64) F16Row {
  float value[16];
  std::int32_t exponent[8];
  bool special;
};
void pack_f16_row(const std::uint16_t* from, F16Row& to);

/// The 8 columns of an instruction, 16 operands each, as lanes: value[k][column].
struct alignas(64) F16Columns {
  float value[16][8];
  std::int32_t exponent[8][8];
  std::uint16_t special;
};
void pack_f16_columns(const std::uint16_t* from, F16Columns& to);

}  // namespace moe::reference::packed
