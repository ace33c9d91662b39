// moeproof_faulty without machine code for a card: the target moeproof_faulty_card has it.
#include "fixtures/problem/errors.hpp"
#include "tests/planted/card.hpp"

namespace moe::device {

int launch_on_card(Fault, int, std::uint32_t) {
  throw MachineFailure("this program has no machine code; build the target moeproof_faulty_card");
}
int measure_card(std::span<const Fault> f, int launches, double, const std::string&) {
  return launch_on_card(f.front(), launches, 0);
}

}  // namespace moe::device
