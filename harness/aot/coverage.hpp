// Does every shape that a deployment can meet have a kernel that is already compiled? The tile of a launch
// follows from the rows its experts happen to get, so the answer must hold for every routing of every token
// count, not for one that was drawn.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"

namespace moe::harness {

/// Tiles that tile=auto may choose for `tokens` tokens, whatever the routing: an expert gets 0..tokens rows,
/// so each value of the rule's rows from 1 to tokens, in both widths where the number of tiles decides.
std::vector<TileConfig> reachable_tiles(Layout layout, std::int64_t tokens);

struct Outside {
  Case shape;
  std::string reason;   // why no compiled kernel takes it
  std::string nearest;  // "--tp 4" or "--tokens 268435199"; empty: none was found
};

/// What became of one path of the layer in one layout.
struct PathCoverage {
  std::string kernel;
  Layout layout = Layout::swap_ab;
  std::int64_t shapes = 0;         // (tokens, tile, tile_down) that were looked at
  std::set<std::string> variants;  // compiled kernels that they map to, small ones included
  std::optional<Outside> outside;  // the first that maps to none
  bool covered() const { return !outside; }
};

/// `layer`: the deployment of one rank, tokens aside. Looks at every token count with every pair of reachable
/// tiles; nothing is launched or compiled.
PathCoverage cover(const Problem& layer, const std::vector<std::int64_t>& tokens, const std::string& kernel,
                   Layout layout);

}  // namespace moe::harness
