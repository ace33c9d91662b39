// What do planted faults do on a card? Launches there, held against the right bytes of the emulated SM.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "device/planted/fault_table.hpp"

namespace moe::device {

/// Runs the fault's trigger `launches` times in this process; `delays` seeds pauses at synchronisation sites
/// (0 = none). Prints one line of JSON: launches, wrong (whose bytes differ), reports. Returns 0; 3 when the
/// card failed.
int launch_on_card(Fault fault, int launches, std::uint32_t delays);

/// launch_on_card for each fault in a child process that has `seconds`, then once without a fault; writes one
/// JSON file.
int measure_card(std::span<const Fault> faults, int launches, double seconds, const std::string& json);

}  // namespace moe::device
