// Where are the conformance kernels of the emulated SM? The table, in the order of kKernels.
#pragma once
#include "device/hopper/conformance/conformance_params.hpp"

namespace moe::hopper::conformance {

/// kKernelCount entries; each takes a Params.
using Run = void (*)(const void* params);
const Run* emulated_kernels();

}  // namespace moe::hopper::conformance
