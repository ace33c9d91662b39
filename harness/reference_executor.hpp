// What does the reference give in a kernel's place? Executor "reference" computes each stage to the bit with
// the declared Semantics. Judged by intervals, which come from sums in double and share no arithmetic with
// it, a pass says that the bit model stays within the derived bounds and that routing, inputs and judgement
// fit together; it says nothing about any kernel.
#pragma once
#include <memory>

#include "device/executor.hpp"

namespace moe::harness {

std::unique_ptr<device::Executor> make_reference_executor(int threads);

}  // namespace moe::harness
