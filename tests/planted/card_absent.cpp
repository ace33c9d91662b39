// moeproof_faulty without machine code for a card: the target moeproof_faulty_card has it.
#include "fixtures/problem/errors.hpp"
#include "tests/planted/card.hpp"

namespace moe::device {

int launch_on_card(std::span<const Fault>, int, std::uint32_t) {
  throw MachineFailure("this program has no machine code; build the target moeproof_faulty_card");
}

}  // namespace moe::device
