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
  std::uint64_t seed = 0;  // of the orders of completion, besides each case's own
  int first_schedule = 1;  // number of the order of completion that the second run takes
};

/// The first run of a session is deterministic; each further one takes another order of asynchronous
/// completion, drawn from the case's seed and the order's number, so that a case's line names it.
std::unique_ptr<Executor> make_emulated_executor(const EmulatedPlan& plan);

}  // namespace moe::device
