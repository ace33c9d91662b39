// Which arithmetic does the emulated SM get? The fastest one that this CPU can run; every level gives the
// same bits.
#pragma once
#include "fixtures/problem/mma_step.hpp"
#include "reference/tensor_core/chain.hpp"

namespace moe::reference {

/// The best level of this CPU.
const MmaStep& mma_step();
/// One level by name, for tests and measurements; it must be available(level).
const MmaStep& mma_step(Level level);

}  // namespace moe::reference
