// How does a test build of a kernel learn on the card which fault is in force and how long to dawdle at a
// synchronisation? Two words of constant memory that the host writes before a launch (CudaMachine::plant).
// Release builds never include this file.
#pragma once
#include <cstdint>

extern "C" {
__constant__ std::int32_t moe_planted[2];  // fault, seed of the delays (0 = none)
}

namespace moe::hopper {

__device__ __forceinline__ int planted_fault() { return moe_planted[0]; }

/// Sleeps 0..4 us, as the seed, the warp and the place say; every second time not at all.
__device__ __forceinline__ void planted_delay(unsigned place) {
  const unsigned seed = unsigned(moe_planted[1]);
  if (seed == 0) return;
  unsigned h = seed * 0x9E3779B1u + blockIdx.x * 0x85EBCA77u + (threadIdx.x / 32) * 0xC2B2AE3Du + place;
  h = (h ^ (h >> 15)) * 0x2C1B3C6Du;
  h = (h ^ (h >> 12)) * 0x297A2D39u;
  h ^= h >> 15;
  if (h & 1u) __nanosleep(h >> 20);
}

}  // namespace moe::hopper
