#include "device/emulator/launch_chain.hpp"

#include <utility>

namespace moe::device::emulator {

std::vector<LaunchConflict> LaunchChain::add(std::string name, const LaunchOrder& order, AccessLog all,
                                             const AccessLog& early, std::size_t limit) {
  std::vector<LaunchConflict> conflicts;
  if (!order.dependent) in_flight_.clear();
  for (const InFlight& before : in_flight_) {
    const AccessLog& mine = before.ends_with_wait ? early : all;
    for (const Conflict& k : find_conflicts({before.log, mine}, limit)) {
      Conflict bytes = k;
      if (bytes.cta_a == 1) {
        std::swap(bytes.kind_a, bytes.kind_b);
        std::swap(bytes.pc_a, bytes.pc_b);
      }
      conflicts.push_back({bytes, before.name, &before == &in_flight_.back()});
    }
  }
  if (order.waited && order.next_after_wait) in_flight_.clear();
  if (order.waited)
    for (InFlight& before : in_flight_) before.ends_with_wait = true;
  else if (!in_flight_.empty())
    for (InFlight& before : in_flight_) before.ends_with_wait = false;
  in_flight_.push_back({std::move(name), std::move(all)});
  return conflicts;
}

}  // namespace moe::device::emulator
