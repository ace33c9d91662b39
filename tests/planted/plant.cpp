#include "tests/planted/plant.hpp"

namespace {
thread_local int fault_in_force = 0;
}

namespace moe::device {
void plant(Fault fault) { fault_in_force = int(fault); }
}  // namespace moe::device

namespace moe::hopper::engine {
int planted_fault() noexcept { return fault_in_force; }
}  // namespace moe::hopper::engine
