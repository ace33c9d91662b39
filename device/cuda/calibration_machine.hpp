// Where do the micro-kernels of the calibration run? The card with device/calibrate's machine code.
#pragma once
#include <memory>

#include "device/machine.hpp"

namespace moe::device {

/// Device `ordinal`; throws MachineFailure where there is no driver, no such card, or no code for it in this
/// binary.
std::unique_ptr<Machine> open_calibration_machine(int ordinal);

}  // namespace moe::device
