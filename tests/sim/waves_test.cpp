// Waves of a launch, whole runs of equal tiles at once.
#include "sim/waves.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

namespace moe::sim {
namespace {

// Against a visit of each tile. Would catch a tile lost or counted twice where a run ends inside a wave, and
// a merged wave whose traffic is another's.
RC_GTEST_PROP(Waves, AreThoseOfTheTilesOneByOne, ()) {
  const std::int64_t slots = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto runs = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 40), rc::gen::inRange(0, 3)));
  Waves waves(slots);
  std::vector<Wave> slow;
  for (const auto& [tiles, bytes] : runs) {
    const Traffic each{double(bytes), 1, 2, double(3 * bytes)};
    waves.add(tiles, each);
    for (int i = 0; i < tiles; ++i) {
      if (slow.empty() || slow.back().tiles == slots) slow.emplace_back();
      ++slow.back().tiles;
      slow.back().traffic += each;
    }
  }
  std::size_t at = 0;
  for (const Wave& wave : waves.take())
    for (std::int64_t i = 0; i < wave.count; ++i, ++at) {
      RC_ASSERT(at < slow.size());
      RC_ASSERT(wave.tiles == slow[at].tiles && wave.traffic == slow[at].traffic);
    }
  RC_ASSERT(at == slow.size());
}

}  // namespace
}  // namespace moe::sim
