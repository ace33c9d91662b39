// How does host code reach the instrumented copy of a kernel? Each line of variants.hpp is one instantiation,
// made by variant.cpp; this header has no std headers, so that an instrumented unit may include it.
#pragma once
#include <cstdint>

namespace moe::device {

template <int Index>
struct EmulatedVariant {
  static void run(const void* params);  // the life of one CUDA thread
  static std::uint64_t params_bytes();
};

}  // namespace moe::device
