// The executor named "emulated": the built-in kernels on the emulated SM. It proves data movement and
// protocol; the arithmetic of a tensor-core instruction is the caller's.
#pragma once
#include <cstdint>
#include <memory>

#include "device/executor.hpp"
#include "fixtures/problem/mma_step.hpp"

namespace moe::device {

struct EmulatedPlan {
  MmaStep arithmetic{};
  int sms = 1;             // that the layer sees
  int threads = 1;         // host threads that run CTAs
  std::uint64_t seed = 0;  // of the orders of completion
};

/// The first run of a session is deterministic; each further one takes another order of asynchronous
/// completion, drawn from the plan's seed and the run's number.
std::unique_ptr<Executor> make_emulated_executor(const EmulatedPlan& plan);

}  // namespace moe::device
