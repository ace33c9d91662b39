#include "sim/bank_conflicts.hpp"

#include <algorithm>
#include <array>

namespace moe::sim {
namespace {

int lanes_at_once(int width) { return 32 * kSharedBankBytes / width; }

/// Largest number of different words that one bank must deliver to these lanes.
int passes_of_group(std::span<const std::int64_t> addresses, int width) {
  std::array<std::int64_t, kSharedBanks> words;  // lanes x words a lane
  std::size_t count = 0;
  for (std::int64_t address : addresses) {
    for (int byte = 0; address >= 0 && byte < width; byte += kSharedBankBytes)
      words[count++] = (address + byte) / kSharedBankBytes;
  }
  std::sort(words.begin(), words.begin() + std::ptrdiff_t(count));
  const auto end = std::unique(words.begin(), words.begin() + std::ptrdiff_t(count));
  std::array<int, kSharedBanks> load{};
  int most = 0;
  for (auto word = words.begin(); word != end; ++word)
    most = std::max(most, ++load[std::size_t(*word % kSharedBanks)]);
  return most;
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

}  // namespace moe::sim
