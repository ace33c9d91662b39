// What does a kernel parameter hold for a TMA tensor? 128 opaque bytes, aligned to 64 as CUtensorMap is. On the card
// cuTensorMapEncodeTiled fills them; the emulated SM keeps its own description in the same bytes.
#pragma once
#include <cstdint>

namespace moe::hopper {

struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// The emulated SM's reading of those bytes: a matrix of bytes, box rows of 128 bytes, 128-byte swizzle.
struct EmulatedTensorMap {
  std::uint64_t base, rows, cols, stride;   // address; bytes
  std::uint32_t box_rows, box_cols;
};
static_assert(sizeof(EmulatedTensorMap) <= sizeof(TensorMap));

}  // namespace moe::hopper
