// Where do the operands of a wgmma lie in shared memory, and is its descriptor one that names them? Offsets
// and sizes in bytes.
#pragma once
#include <cstdint>

#include "device/emulator/engine.hpp"

namespace moe::device::emulator {

inline constexpr int kWgmmaRows = sm90::kWgmmaM, kWgmmaStepBytes = sm90::kWgmmaK8bit;

/// A K-major operand as its descriptor says (PTX ISA, "Matrix Descriptor" and "Tensor Swizzling Modes"):
/// 8-row groups are SBO apart; with a swizzle a row is as wide as that, without one 16 bytes, and LBO lies
/// between columns.
struct Operand {
  hopper::Swizzle swizzle;
  std::uint32_t start, column, group, row;
  explicit Operand(std::uint64_t descriptor)
      : swizzle(hopper::Swizzle(descriptor >> 62)),
        start(std::uint32_t(descriptor & 0x3FFF) << 4),
        column(swizzle == hopper::Swizzle::none ? std::uint32_t((descriptor >> 16) & 0x3FFF) << 4 : 16),
        group(std::uint32_t((descriptor >> 32) & 0x3FFF) << 4),
        row(row_bytes(swizzle)) {}
  /// Shared offset of byte k (a multiple of 16) of a row.
  std::uint32_t offset(std::uint32_t r, std::uint32_t k) const {
    return swizzled(swizzle, start + r / 8 * group + r % 8 * row + k / 16 * column);
  }
};

/// Rows first..last of an operand, kWgmmaStepBytes each, to `to`.
void read_operand(const Cta& c, std::uint64_t descriptor, int first, int last, std::uint8_t* to);

/// Reports a descriptor that breaks a rule; stops the CTA where it leaves shared memory. `seen`: what the
/// warpgroup knows, against which every read of the operand is held; null: reads are not checked.
void check_operand(Cta& c, const WgmmaOp& op, bool is_b, const Observer* seen, AsyncReader reader);

}  // namespace moe::device::emulator
