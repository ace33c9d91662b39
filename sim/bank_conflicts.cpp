#include "sim/bank_conflicts.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace moe::sim {
namespace {

int lanes_at_once(int width) { return 32 * kSharedBankBytes / width; }

/// Largest number of different words that one bank must deliver to these lanes.
int passes_of_group(std::span<const std::int64_t> addresses, int width) {
  std::array<std::vector<std::int64_t>, kSharedBanks> words;
  for (std::int64_t address : addresses) {
    if (address < 0) continue;
    for (int byte = 0; byte < width; byte += kSharedBankBytes) {
      const std::int64_t word = (address + byte) / kSharedBankBytes;
      std::vector<std::int64_t>& bank = words[std::size_t(word % kSharedBanks)];
      if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
    }
  }
  std::size_t most = 0;
  for (const auto& bank : words) most = std::max(most, bank.size());
  return int(most);
}

int groups(std::size_t lanes, int width) {
  return int((lanes + std::size_t(lanes_at_once(width)) - 1) / std::size_t(lanes_at_once(width)));
}

}  // namespace

int shared_passes(std::span<const std::int64_t> addresses, int width) {
  const std::size_t step = std::size_t(lanes_at_once(width));
  int passes = 0;
  for (std::size_t first = 0; first < addresses.size(); first += step) {
    const auto group = addresses.subspan(first, std::min(step, addresses.size() - first));
    passes += std::max(1, passes_of_group(group, width));
  }
  return passes;
}

int bank_conflicts(std::span<const std::int64_t> addresses, int width) {
  return shared_passes(addresses, width) - groups(addresses.size(), width);
}

int fragment_conflicts() {
  int conflicts = 0;
  for (int step = 0; step < 8; ++step) {
    std::array<std::int64_t, 32> addresses;
    for (int lane = 0; lane < 32; ++lane)
      addresses[std::size_t(lane)] = swizzled(lane / 4, 16 * step + 4 * (lane % 4));
    conflicts += bank_conflicts(addresses, 4);
  }
  return conflicts;
}

}  // namespace moe::sim
