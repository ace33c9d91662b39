#include "device/emulator/shared_wavefronts.hpp"

#include <algorithm>
#include <bit>

namespace moe::device::emulator {
namespace {

constexpr std::uint32_t kBanks = 32, kBankBytes = 4;
constexpr std::size_t kMostWaiting = 4096;  // executions of a place that only some lanes have reached

/// Passes over the banks for the lanes of `mask`: distinct words in the busiest bank.
int passes(const std::array<std::uint32_t, 32>& offset, std::uint32_t mask, std::uint32_t words_a_lane) {
  std::array<std::uint32_t, 32> words;
  std::size_t count = 0;
  for (std::uint32_t m = mask; m; m &= m - 1) {
    const std::uint32_t first = offset[std::size_t(std::countr_zero(m))] / kBankBytes;
    for (std::uint32_t w = 0; w < words_a_lane; ++w) words[count++] = first + w;
  }
  std::sort(words.begin(), words.begin() + std::ptrdiff_t(count));
  const auto end = std::unique(words.begin(), words.begin() + std::ptrdiff_t(count));
  std::array<int, kBanks> load{};
  int most = 0;
  for (auto word = words.begin(); word != end; ++word) most = std::max(most, ++load[*word % kBanks]);
  return most;
}

}  // namespace

void SharedWavefronts::reset(int warps) {
  warps_.clear();
  warps_.resize(std::size_t(warps));
  wavefronts_ = least_ = 0;
}

SharedWavefronts::Place& SharedWavefronts::place(Warp& warp, std::uint32_t pc, std::uint32_t bytes) {
  std::size_t slot = (pc * 2654435761u) >> 24;
  for (std::size_t tries = 0; tries < warp.index.size(); ++tries, slot = (slot + 1) % warp.index.size()) {
    if (!warp.index[slot]) {
      warp.places.emplace_back();
      warp.places.back().pc = pc;
      warp.places.back().bytes = bytes;
      warp.index[slot] = std::uint16_t(warp.places.size());
    }
    Place& p = warp.places[std::size_t(warp.index[slot] - 1)];
    if (p.pc == pc && p.bytes == bytes) return p;
  }
  return warp.places.front();  // more places than any kernel has: their counts mix
}

void SharedWavefronts::count(const Instruction& instruction, std::uint32_t bytes) {
  const std::uint32_t words = std::max(bytes / kBankBytes, 1u), lanes = kBanks / words;
  for (std::uint32_t first = 0; first < 32; first += lanes) {
    const std::uint32_t group = lanes == 32 ? ~0u : ((1u << lanes) - 1) << first;
    const int needed = passes(instruction.offset, instruction.lanes & group, words);
    wavefronts_ += needed;
    least_ += needed > 0;
  }
}

void SharedWavefronts::record(int warp, int lane, std::uint32_t pc, std::uint32_t offset,
                              std::uint32_t bytes) {
  Place& p = place(warps_[std::size_t(warp)], pc, bytes <= kBankBytes ? kBankBytes : bytes <= 8 ? 8 : 16);
  const std::uint32_t number = p.done[std::size_t(lane)]++;
  if (number < p.first) return;  // was counted without this lane
  const std::size_t at = number - p.first;
  if (at >= p.waiting.size()) p.waiting.resize(at + 1);
  Instruction& i = p.waiting[at];
  i.lanes |= 1u << lane;
  i.offset[std::size_t(lane)] = offset;
  if (i.lanes != ~0u && p.waiting.size() < kMostWaiting) return;
  // half of them at once where too many wait, so that moving the rest up stays cheap
  const std::size_t surplus = p.waiting.size() < kMostWaiting ? 0 : kMostWaiting / 2;
  std::size_t counted = 0;
  while (counted < p.waiting.size() && (p.waiting[counted].lanes == ~0u || counted < surplus))
    count(p.waiting[counted++], p.bytes);
  p.waiting.erase(p.waiting.begin(), p.waiting.begin() + std::ptrdiff_t(counted));
  p.first += std::uint32_t(counted);
}

void SharedWavefronts::finish() {
  for (Warp& warp : warps_)
    for (Place& p : warp.places) {
      for (const Instruction& i : p.waiting) count(i, p.bytes);
      p.waiting.clear();
    }
}

}  // namespace moe::device::emulator
