// Parameters of inv_rope_quant (inv_rope_quant.cuh). Strides count elements; all are 64 bits wide, since a
// row's number times its stride passes 2^31 in a large prefill.
#pragma once
#include <cstdint>

namespace moe::device {

/// Heads that a CTA takes of its four tokens.
inline constexpr int kRopeHeads = 4, kRopeTokens = 4;

struct InvRopeQuantParams {
  const std::uint16_t* o = nullptr;  // bf16, 512 neighbouring values a head
  std::int64_t o_token = 0, o_head = 0;
  const std::int64_t* positions = nullptr;  // [tokens], rows of cos_sin
  const float* cos_sin = nullptr;           // 32 cosines and 32 sines a row, 16-byte aligned
  std::int64_t cos_sin_row = 0;             // a multiple of 4
  std::uint8_t* codes = nullptr;            // e4m3, 512 neighbouring values a head
  std::int64_t codes_group = 0, codes_token = 0;
  std::uint32_t* scales = nullptr;  // fp32 bits, or four UE8M0 exponents of a head; tokens are neighbours
  std::int64_t scale_group = 0, scale_row = 0;  // multiples of 4, so that four tokens are one access
  std::int64_t tokens = 0;
  std::int32_t groups = 0, heads_per_group = 0;
  std::int32_t packed = 0;  // a row of scales a head instead of one a quarter
};

}  // namespace moe::device
