// Which fault is in force in this program? Every test build of a kernel, and the host code compiled with
// MOE_PLANTED, asks here; each host thread has its own answer.
#pragma once
#include "device/planted/faults.hpp"

namespace moe::device {

/// From now on, on this thread.
void plant(Fault fault);

}  // namespace moe::device
