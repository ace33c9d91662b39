// The executor named "cuda": the built-in kernels on a card. The header needs no cuda.h; a binary built
// without a CUDA compiler has the function too, and it refuses with that reason.
#pragma once
#include <memory>
#include <string>

#include "device/executor.hpp"

namespace moe::device {

/// True when the binary carries machine code for the card.
bool cuda_was_built();

/// Executor on device `ordinal`. Opening a case throws MachineFailure when there is no usable driver or card.
std::unique_ptr<Executor> make_cuda_executor(int ordinal);

}  // namespace moe::device
