#include "harness/aot/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/session/launched_kernels.hpp"
#include "device/session/moe_session.hpp"
#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

/// Rows an expert may have at which the rule of auto_tile may change, and the ends.
std::vector<std::int64_t> telling_rows(std::int64_t tokens) {
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 1; r <= std::min<std::int64_t>(tokens, 256); ++r) rows.push_back(r);
  if (tokens > 256) rows.push_back(tokens);
  return rows;
}

constexpr std::int64_t kRanks[] = {1, 2, 4, 8, 16, 32, 64};

bool inside(Problem layer, const Choice& choice, std::int64_t tokens) {
  layer.shape.tokens = tokens;
  try {
    validate(layer);
  } catch (const BadInput&) {
    return false;
  }
  return device::refuse_case({layer, choice}).empty();
}

double steps(double a, double b) { return std::abs(std::log2(a / b)); }

/// The ranks nearest to the deployment's, in factors of two, that the choice takes.
std::string nearest_ranks(const Problem& layer, const Choice& choice, std::int64_t tokens) {
  double least = 1e9;
  std::string nearest;
  for (const std::int64_t tp : kRanks)
    for (const std::int64_t ep : kRanks) {
      Problem p = layer;
      p.shape.tp = int(tp), p.shape.ep = int(ep), p.rank = 0;
      if (p.shape.intermediate % tp != 0 || p.shape.experts % ep != 0 || !inside(p, choice, tokens)) continue;
      const double away = steps(double(tp), layer.shape.tp) + steps(double(ep), layer.shape.ep);
      if (away < least) least = away, nearest = fmt::format("--tp {} --ep {}", tp, ep);
    }
  return nearest;
}

/// The largest token count below `tokens` that the choice takes.
std::string nearest_tokens(const Problem& layer, const Choice& choice, std::int64_t tokens) {
  std::int64_t low = 1, high = tokens;
  if (!inside(layer, choice, low)) return {};
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (inside(layer, choice, middle) ? low : high) = middle;
  }
  return fmt::format("--tokens {}", low);
}

}  // namespace

std::vector<TileConfig> reachable_tiles(Layout layout, std::int64_t tokens) {
  std::vector<TileConfig> tiles;
  for (const std::int64_t rows : telling_rows(tokens)) {
    ExpertLoad load;
    load.rows = {rows};
    for (const std::int64_t n : {std::int64_t(1), std::int64_t(1) << 40}) {  // few tiles, and many
      const TileConfig tile = auto_tile(layout, load, n);
      if (std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    }
  }
  return tiles;
}

PathCoverage cover(const Problem& layer, const std::vector<std::int64_t>& tokens, const std::string& kernel,
                   Layout layout) {
  PathCoverage found{kernel, layout, 0, {}, {}};
  for (const std::int64_t count : tokens) {
    Case c{layer, {}};
    c.problem.shape.tokens = count;
    c.choice.kernel = kernel;
    c.choice.layout = layout;
    const std::vector<TileConfig> tiles = reachable_tiles(layout, std::max<std::int64_t>(count, 1));
    for (const TileConfig& up : tiles)
      for (const TileConfig& down : tiles) {
        c.choice.tile = up, c.choice.tile_down = down;
        ++found.shapes;
        if (std::string refusal = device::refuse_case(c); !refusal.empty()) {
          std::string nearest = nearest_ranks(layer, c.choice, count);
          if (nearest.empty()) nearest = nearest_tokens(layer, c.choice, count);
          found.outside = Outside{c, std::move(refusal), std::move(nearest)};
          return found;
        }
        if (count > 0)
          for (const std::string& name : device::launched_kernels(c)) found.variants.insert(name);
      }
  }
  return found;
}

}  // namespace moe::harness
