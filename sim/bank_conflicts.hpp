// How many times must shared memory serve one access of a warp? Exact for a given list of byte addresses: 32
// banks of 4 bytes, one 4-byte word of a bank at a time, lanes that want the same word served together.
// Accesses of 8 bytes go half a warp at a time, of 16 bytes a quarter (CUDA C++ Programming Guide, "Shared
// Memory", compute capability 5.x on).
#pragma once
#include <cstdint>
#include <span>

namespace moe::sim {

inline constexpr int kSharedBanks = 32, kSharedBankBytes = 4;

/// Passes that one access takes; at least one a group. `addresses`: up to 32 lanes, in lane order, each
/// aligned to `width` bytes (4, 8 or 16); a negative address is a lane that does not take part.
int shared_passes(std::span<const std::int64_t> addresses, int width);

/// Passes beyond the least: what Nsight Compute counts as bank conflicts.
int bank_conflicts(std::span<const std::int64_t> addresses, int width);

/// Byte of element (row, byte) in a tile of 128-byte rows under the 128-byte swizzle
/// (fixtures/problem/sm90.hpp).
constexpr std::int64_t swizzled(std::int64_t row, std::int64_t byte) {
  return row * 128 + (byte ^ (row % 8 * 16));
}

}  // namespace moe::sim
