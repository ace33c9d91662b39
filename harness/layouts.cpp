#include "harness/layouts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"
#include "sim/cutlass_dense.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

Choice choice(Choice given, Layout layout, const Problem& problem, const ExpertLoad& load) {
  given.layout = layout;
  return resolve_tiles(given, problem, load);
}

/// The smallest block_m of the baseline layout that holds the tile's tokens.
void raise_block_m(TileConfig& tile, Layout layout) {
  const int least = layout == Layout::normal_wgmma ? sm90::kWgmmaM : sm90::kMmaM;
  tile.block_m = std::max(tile.block_m, least);
}

Choice baseline(const Choice& given, const Choice& swap, const Problem& problem, const ExpertLoad& load) {
  Choice c = choice(given, true_baseline(swap), problem, load);
  raise_block_m(c.tile, c.layout);
  raise_block_m(c.tile_down, c.layout);
  return c;
}

/// CUTLASS's dense GEMM has one order and one tile, whatever layout is asked for.
Choice only_tile(Choice given) {
  given.layout = Layout::normal_wgmma;
  if (given.tile.automatic()) given.tile.block_m = given.tile.block_n = given.tile.block_k = sim::kDenseTile;
  return given;
}

}  // namespace

LayoutRequest parse_layout_request(std::string_view text) {
  if (text == "both") return LayoutRequest::both;
  if (text == "all") return LayoutRequest::all;
  if (text == "normal_mma") return LayoutRequest::normal_mma;
  if (text == "normal_wgmma") return LayoutRequest::normal_wgmma;
  if (text == "swap_ab") return LayoutRequest::swap_ab;
  throw BadInput(
      fmt::format("'{}' is not a layout; write normal_mma, normal_wgmma, swap_ab, both or all", text));
}

Layout true_baseline(const Choice& swap) {
  return swap.tile.block_m < sm90::kWgmmaM ? Layout::normal_mma : Layout::normal_wgmma;
}

std::vector<Choice> choices_for(LayoutRequest request, const Choice& given, const Problem& problem,
                                const ExpertLoad& load) {
  if (given.kernel == sim::kCutlassDenseKernel) return {only_tile(given)};
  const Choice swap = choice(given, Layout::swap_ab, problem, load);
  switch (request) {
    case LayoutRequest::normal_mma:
      return {choice(given, Layout::normal_mma, problem, load)};
    case LayoutRequest::normal_wgmma:
      return {choice(given, Layout::normal_wgmma, problem, load)};
    case LayoutRequest::swap_ab:
      return {swap};
    case LayoutRequest::both:
      return {baseline(given, swap, problem, load), swap};
    case LayoutRequest::all:
      return {choice(given, Layout::normal_mma, problem, load),
              choice(given, Layout::normal_wgmma, problem, load), swap};
  }
  return {};
}

void validate_tile(const TileConfig& tile) {
  if (tile.automatic()) return;
  const std::int64_t stage =
      (std::int64_t(tile.block_m) + tile.block_n) * tile.block_k;  // e4m3: a byte an element
  const std::int64_t stages = std::max(tile.stages, 2);            // a pipeline needs two
  if (stages * stage > sm90::kSharedBytesPerCta)
    throw BadInput(fmt::format(
        "tile {}: {} stages of {} bytes need {} KB of shared memory a CTA; sm_90 has {} KB", to_string(tile),
        stages, stage, (stages * stage + 1023) / 1024, sm90::kSharedBytesPerCta / 1024));
}

}  // namespace moe::harness
