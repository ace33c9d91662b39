// Which machine code does the binary carry? One image a kernel variant, or none when it was built without
// nvcc.
#pragma once
#include <span>
#include <string_view>

namespace moe::device {

struct CubinImage {
  int variant;             // index in device/kernels/variants.hpp
  std::string_view entry;  // symbol of the kernel
  std::string_view bytes;  // cubin (ELF)
};

/// All images, ascending by variant; empty when no CUDA compiler was found at build time.
std::span<const CubinImage> cubin_images();

}  // namespace moe::device
