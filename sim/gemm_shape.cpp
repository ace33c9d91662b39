#include "sim/gemm_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "fixtures/problem/errors.hpp"
#include "sim/layer_path.hpp"

namespace moe::sim {
namespace {

bool one_of(int value, std::initializer_list<int> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

void check_tile(Layout layout, const TileConfig& tile) {
  const char* allowed = nullptr;
  switch (layout) {
    case Layout::swap_ab:
      if (!one_of(tile.block_m, {8, 16, 32, 64, 128})) allowed = "8, 16, 32, 64 or 128";
      break;
    case Layout::normal_wgmma:
      if (!one_of(tile.block_m, {64, 128})) allowed = "64 or 128";
      break;
    case Layout::normal_mma:
      if (!one_of(tile.block_m, {16, 32})) allowed = "16 or 32";
      break;
  }
  if (allowed != nullptr) {
    throw BadInput(fmt::format("tile: layout {} cannot take {} tokens a tile; allowed: {}", name(layout),
                               tile.block_m, allowed));
  }
  const int smallest = layout == Layout::swap_ab ? 8 : layout == Layout::normal_wgmma ? 64 : 16;
  const bool narrow = tile.block_n == 64 && tile.block_m == smallest;
  if ((tile.block_n != 128 && !narrow) || tile.block_k != 128) {
    throw BadInput(
        fmt::format("tile: {}x{} weights a k-block; {} kernels have 128x128, and 64x128 with {} tokens",
                    tile.block_n, tile.block_k, name(layout), smallest));
  }
}

}  // namespace

int GemmShape::stages() const {
  if (tile.stages > 0) return tile.stages;
  if (tile.block_n == 64) return tile.block_m == 64 ? 12 : 16;
  return tile.block_m <= 64 ? 8 : 6;
}

std::int64_t GemmShape::load_bytes() const {
  const std::int64_t codes = std::int64_t(tile.block_n + tile.block_m) * tile.block_k;
  return codes + (block_scales ? tile.block_m * std::int64_t(sizeof(float)) : 0);
}

bool GemmShape::two_in_flight() const {
  constexpr int kLongChain = 8;
  const bool room = (layout == Layout::swap_ab && tile.block_m <= 16) ||
                    (layout == Layout::normal_wgmma && tile.block_m == 64);
  return room && kblocks() >= kLongChain;
}

std::vector<GemmShape> gemm_shapes(const Problem& problem, const Choice& choice) {
  const MoeShape& shape = problem.shape;
  const bool layer = problem.op == Op::moe_layer;
  if (!layer && problem.op != Op::grouped_gemm) return {};
  GemmShape up{.name = layer ? "gemm1" : "grouped_gemm",
               .n = shape.up_rows(),
               .k = shape.hidden,
               .layout = choice.layout,
               .tile = choice.tile,
               .block_scales = problem.quant.block()};
  GemmShape down = up;
  if (choice.kernel == kFusedKernel) up.gathered_from = shape.tokens;
  down.name = layer ? "gemm2" : "grouped_gemm";
  down.n = shape.hidden;
  down.k = shape.local_intermediate();
  std::vector<GemmShape> shapes;
  if (layer || problem.gemm == 1) shapes.push_back(up);
  if (layer || problem.gemm == 2) {
    if (layer) down.tile = choice.tile_down;
    shapes.push_back(down);
  }
  for (const GemmShape& gemm : shapes) check_tile(gemm.layout, gemm.tile);
  return shapes;
}

}  // namespace moe::sim
