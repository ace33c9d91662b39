// What does the reference give in a kernel's place? Executor "reference" computes each stage to the bit with
// the Semantics of the built-in kernels, or of a preset. Judged by intervals, which come from sums in double
// and share no arithmetic with it, a pass says that the bit model stays within the derived bounds and that
// routing, inputs and judgement fit together; it says nothing about any kernel.
#pragma once
#include <memory>
#include <string_view>

#include "device/executor.hpp"

namespace moe::harness {

/// `preset`: one of semantics_presets(); empty = what the built-in kernels declare. Throws BadInput for
/// others.
std::unique_ptr<device::Executor> make_reference_executor(int threads, std::string_view preset = "");

}  // namespace moe::harness
