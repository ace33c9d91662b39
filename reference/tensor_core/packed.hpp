// How do the chains lay out decoded operands? A 32-bit lane holds two operands of one column as int16: pair p
// = 2j + h is k = 4j + h (low half) and 4j + 2 + h (high half), which two masks make from four neighbouring
// codes.
#pragma once
#include <cstdint>
#include <cstring>

#include "reference/tensor_core/chain.hpp"

namespace moe::reference::packed {

inline constexpr int kPairs = 16;

/// The codes travel along: elements that the fast arithmetic does not cover (NaN, infinity, tiny
/// accumulators) are computed again by instructions.hpp.
struct alignas(64) RowCodes {
  std::uint8_t code[32];
  Fp8 format;
  bool special;  // a NaN or an infinity is among the codes
};
struct alignas(64) GroupCodes {
  std::uint8_t code[kGroupColumns][32];
  Fp8 format;
  std::uint16_t special;  // one bit a column
};

/// wgmma: magnitude, exponent and sign of each operand; their encoding is the level's own.
struct alignas(64) WgmmaRow {
  std::int32_t magnitude[kPairs], exponent[kPairs], sign[kPairs];
  RowCodes codes;
};
struct alignas(64) WgmmaGroup {
  std::int32_t magnitude[kPairs][kGroupColumns], exponent[kPairs][kGroupColumns], sign[kPairs][kGroupColumns];
  GroupCodes codes;
};

/// Which k of a k32 block is operand i of HMMA step s.
constexpr int hmma_k(HmmaOrder order, int s, int i) {
  return order == HmmaOrder::contiguous ? 16 * s + i : 4 * (i / 2) + 2 * s + i % 2;
}

/// hmma: two steps of 16 k. The order inside a step does not matter; a level packs values and pairs of
/// exponents (in the halves of a 32-bit lane) as its masks make them.
struct alignas(64) HmmaRow {
  float value[2][16];
  std::int32_t exponent[2][8];
  RowCodes codes;
};
struct alignas(64) HmmaGroup {
  float value[2][16][kGroupColumns];
  std::int32_t exponent[2][8][kGroupColumns];
  GroupCodes codes;
};

/// Copies rows of k codes into [rows][32] at k0, zero where k ends or rows are missing.
inline void take_codes(const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int wanted, int k0, int k,
                       std::uint8_t* to) {
  const int n = k - k0 < kBlockK ? k - k0 : kBlockK;
  for (int r = 0; r < wanted; ++r) {
    std::uint8_t* out = to + r * kBlockK;
    if (r < rows && n == kBlockK) {  // of a known size: whole vectors, which the decoder reads back unstalled
      std::memcpy(out, codes + r * stride + k0, kBlockK);
      continue;
    }
    std::memset(out, 0, kBlockK);
    if (r < rows) std::memcpy(out, codes + r * stride + k0, std::size_t(n));
  }
}

}  // namespace moe::reference::packed
