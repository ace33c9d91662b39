// What does a kernel parameter hold for a TMA tensor? 128 opaque bytes, aligned to 64 as CUtensorMap is. On the card
// cuTensorMapEncodeTiled fills them; the emulated SM keeps its own description in the same bytes.
#pragma once
#include <cstdint>

#include "fixtures/problem/host_device.hpp"

namespace moe::hopper {

struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// How 16-byte pieces are permuted in shared memory: address bits 4.. are XORed with bits 7.. (PTX ISA, "Tensor
/// Swizzling Modes"). The numbers are those of a matrix descriptor's layout type.
enum class Swizzle : std::uint32_t { none = 0, b128 = 1, b64 = 2, b32 = 3 };
/// Bytes of a row of a tile: a box is that wide.
MOE_HD constexpr std::uint32_t row_bytes(Swizzle s) {
  return s == Swizzle::b128 ? 128 : s == Swizzle::b64 ? 64 : s == Swizzle::b32 ? 32 : 16;
}
MOE_HD constexpr std::uint32_t swizzled(Swizzle s, std::uint32_t address) {
  return address ^ ((address >> 7) & (row_bytes(s) / 16 - 1)) << 4;
}

/// The emulated SM's reading of those bytes: a matrix of bytes, boxes of row_bytes(swizzle) bytes a row.
struct EmulatedTensorMap {
  std::uint64_t base, rows, cols, stride;   // address; bytes
  std::uint32_t box_rows, box_cols;
  Swizzle swizzle;
};
static_assert(sizeof(EmulatedTensorMap) <= sizeof(TensorMap));

}  // namespace moe::hopper
