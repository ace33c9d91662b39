// Which numbers does a test draw where every machine must draw the same? A linear congruential generator
// (Knuth's MMIX constants), upper bits.
#pragma once
#include <cstdint>

namespace moe::test {

struct Scramble {
  std::uint64_t state;
  int below(int n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return int((state >> 33) % std::uint64_t(n));
  }
};

}  // namespace moe::test
