// How does a thread read and write eight neighbouring elements of a row? In one 16-byte (bf16) or 8-byte
// (e4m3) access where the address allows, element by element in the last columns of a row and where it does
// not.
#pragma once
#include "device/hopper/hopper.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr int kVector = 8;  // elements of one access

  __device__ __forceinline__ bool aligned_to(const void* address, unsigned bytes) {
    return (reinterpret_cast<std::uintptr_t>(address) & (bytes - 1)) == 0;
  }

  /// `count` (clamped to 0..8) bf16 from `at`, +0 beyond them. Kept apart from widen_bf16x8 so that a caller
  /// can have several loads under way before the first one is used.
  __device__ __forceinline__ uint4 load_raw_bf16x8(const std::uint16_t* at, std::int64_t count) {
    if (count >= kVector && aligned_to(at, 16)) return *reinterpret_cast<const uint4*>(at);
    std::uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) words[i / 2] |= std::uint32_t(at[i]) << (16 * (i % 2));
    }
    return uint4{words[0], words[1], words[2], words[3]};
  }

  /// bf16 as fp32, exactly.
  __device__ __forceinline__ void widen_bf16x8(const uint4& raw, float(&v)[kVector]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = hopper::as_float(words[i] << 16);
      v[2 * i + 1] = hopper::as_float(words[i] & 0xFFFF0000u);
    }
  }

  /// Both in one.
  __device__ __forceinline__ void load_bf16x8(float(&v)[kVector], const std::uint16_t* at,
                                              std::int64_t count) {
    widen_bf16x8(load_raw_bf16x8(at, count), v);
  }

  /// `count` (clamped to 0..8) of v to `at`, each rounded once to bf16.
  __device__ __forceinline__ void store_bf16x8(std::uint16_t * at, const float(&v)[kVector],
                                               std::int64_t count) {
    const uint4 raw{hopper::pack_bf16(v[0], v[1]), hopper::pack_bf16(v[2], v[3]),
                    hopper::pack_bf16(v[4], v[5]), hopper::pack_bf16(v[6], v[7])};
    if (count >= kVector && aligned_to(at, 16)) {
      *reinterpret_cast<uint4*>(at) = raw;
      return;
    }
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) at[i] = std::uint16_t(words[i / 2] >> (16 * (i % 2)));
    }
  }

  /// `count` (clamped to 0..8) bytes of `codes`, lowest first, to `at`.
  __device__ __forceinline__ void store_codes8(std::uint8_t * at, std::uint64_t codes, std::int64_t count) {
    if (count >= kVector && aligned_to(at, 8)) {
      *reinterpret_cast<std::uint64_t*>(at) = codes;
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) at[i] = std::uint8_t(codes >> (8 * i));
    }
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
