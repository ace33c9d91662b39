#include "device/emulator/launch_chain.hpp"

#include <utility>

namespace moe::device::emulator {

std::vector<LaunchConflict> LaunchChain::add(std::string name, bool dependent, AccessLog all,
                                             const AccessLog& early, bool waited, std::size_t limit) {
  std::vector<LaunchConflict> conflicts;
  if (!dependent) in_flight_.clear();
  for (const InFlight& before : in_flight_) {
    const bool direct = &before == &in_flight_.back();
    // its own wait covers the launch directly in front; others only as far as that one has waited
    const AccessLog& mine = direct ? early : all;
    for (const Conflict& k : find_conflicts({before.log, mine}, limit)) {
      Conflict bytes = k;
      if (bytes.cta_a == 1) {
        std::swap(bytes.kind_a, bytes.kind_b);
        std::swap(bytes.pc_a, bytes.pc_b);
      }
      conflicts.push_back({bytes, before.name, direct});
    }
  }
  if (waited) in_flight_.clear();
  in_flight_.push_back({std::move(name), std::move(all)});
  return conflicts;
}

}  // namespace moe::device::emulator
