// What do planted faults do on a card? Launches there, held against the right bytes of the emulated SM.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "device/planted/fault_table.hpp"

namespace moe::device {

/// Machine code of a test build: `wgmma_fault` is a place in kWgmmaFaults that is compiled in, -1 = none.
struct PlantedImage {
  int variant, wgmma_fault;
  std::string_view bytes;
};
std::span<const PlantedImage> planted_images();

/// Runs each fault's trigger `launches` times in this process; `delays` seeds pauses at synchronisation sites
/// (another one each launch; 0 = none). Prints a line of JSON when a fault begins and one when it ends:
/// launches, wrong (whose bytes differ), said (the machine's findings, or its error). Returns 3 when the card
/// failed: what follows needs a new process.
int launch_on_card(std::span<const Fault> faults, int launches, std::uint32_t delays);

}  // namespace moe::device
