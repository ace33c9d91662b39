// What do the waves of a launch move? A list of tiles goes over `slots` places, `slots` tiles a wave. Tiles
// come in runs of equal traffic (the panels of a block, the blocks of a panel), so that whole waves of one
// run need no visit of each tile and a launch of a million tiles costs what its runs and its different waves
// cost.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/memory.hpp"

namespace moe::sim {

struct Wave {
  std::int64_t count = 1;  // of equal waves that follow one another
  std::int64_t tiles = 0;  // of each
  Traffic traffic;         // of each
};

class Waves {
 public:
  explicit Waves(std::int64_t slots) : slots_(slots) {}

  /// The next `tiles` tiles of the list, `each` of them.
  void add(std::int64_t tiles, const Traffic& each);

  /// In order; only the last one may have free places.
  std::vector<Wave> take();

 private:
  void close();

  std::int64_t slots_;
  Wave open_;
  std::vector<Wave> waves_;
};

}  // namespace moe::sim
