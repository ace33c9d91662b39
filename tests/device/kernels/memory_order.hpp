// Which small kernels ask whether accesses of memory are ordered? Wrong ones with the check that finds them,
// right ones beside them. Plain host code.
#pragma once
#include <cstdint>
#include <span>

namespace moe::test {

inline constexpr unsigned kMemoryOrderThreads = 128;
inline constexpr int kMemoryOrderShared = 8192 + 64;

struct MemoryOrderParams {
  const float* in;          // f32 [1024]
  float* out;               // f32 [1024]
  float* middle;            // f32 [1024], 0
  std::uint16_t* halves;    // u16 [1024], 0
  std::uint8_t* bytes;      // u8 [1024], 0
  std::uint32_t* counters;  // u32 [8], 0
};

struct MemoryOrderKernel {
  const char* name;
  void (*run)(const void*);
  const char*
      check;  // what finds it, at the line of its source that says "// found: <name>"; null: it is right
  unsigned grid = 1;
  bool cooperative = false;
  void (*in_front)(const void*) = nullptr;  // kernels launched before; the later ones are dependent
  void (*behind_in_front)(const void*) = nullptr;
};
std::span<const MemoryOrderKernel> memory_order_kernels();

}  // namespace moe::test
