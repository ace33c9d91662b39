// What do the kernels of the cross-CTA tests take? Each CTA owns `bytes` bytes of `out`.
#pragma once
#include <cstdint>

namespace moe::test {

struct SlicesParams {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::uint32_t* counter;
  std::uint8_t* result;
  int bytes;
};

enum class SlicesFault { none, overlapping_write, reads_neighbour, plain_read_of_counter, count };
using SlicesRun = void (*)(const void*);
SlicesRun slices(SlicesFault fault);

}  // namespace moe::test
