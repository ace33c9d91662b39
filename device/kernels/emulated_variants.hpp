// Which kernels can the emulated SM launch? All of variants.hpp, in its order.
#pragma once
#include <span>

#include "device/emulator/emulated_machine.hpp"

namespace moe::device {

std::span<const EmulatedKernel> emulated_variants();

}  // namespace moe::device
