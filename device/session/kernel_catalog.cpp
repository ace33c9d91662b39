#include "device/session/kernel_catalog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "device/kernels/gemm_variant.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::device {
namespace {

/// Stages a refused tile would need at least to keep loads in flight while a k-block is computed.
constexpr int kFewestStages = 2;

std::string refuse_shared_bytes(const TileConfig& tile) {
  const std::int64_t stages = tile.stages > 0 ? tile.stages : kFewestStages;
  const std::int64_t bytes = stages * (std::int64_t(tile.block_m) + tile.block_n) * tile.block_k;
  if (bytes <= sm90::kSharedBytesPerCta) return {};
  return fmt::format(
      "tile {} with {} stages needs {} bytes of shared memory for its operands; a CTA has {} (227 KB)",
      to_string(tile), stages, bytes, sm90::kSharedBytesPerCta);
}

}  // namespace

int variant_named(std::string_view name) {
  for (const Variant& variant : kVariants) {
    if (name == variant.name) return variant.index;
  }
  throw std::logic_error(fmt::format("no kernel variant is called {}", name));
}

const Variant* find_gemm(Layout layout, int block_m, int block_n, bool block_scales, KernelKind kind) {
  const auto index =
      find_gemm_variant(layout, block_m, block_n, block_scales ? ScaleKind::block : ScaleKind::flat, kind);
  return index ? &kVariants[*index] : nullptr;
}

std::vector<std::string> legal_tiles(Layout layout, bool block_scales, KernelKind kind) {
  std::vector<std::pair<int, int>> legal;
  for (const Variant& variant : kVariants) {
    if (variant.kind == kind && variant.gemm.kind == gemm_kind(layout) &&
        variant.gemm.block_scales() == block_scales) {
      legal.emplace_back(variant.gemm.block_m, variant.gemm.block_n);
    }
  }
  std::sort(legal.begin(), legal.end());
  std::vector<std::string> names;
  for (const auto& [m, n] : legal) names.push_back(fmt::format("{}x{}x{}", m, n, GemmConfig::block_k));
  return names;
}

std::string refuse_tile(Layout layout, const TileConfig& tile, const QuantScheme& quant, KernelKind kind) {
  if (std::string refusal = refuse_shared_bytes(tile); !refusal.empty()) return refusal;
  const Variant* variant = find_gemm(layout, tile.block_m, tile.block_n, quant.block(), kind);
  if (variant == nullptr || tile.block_k != GemmConfig::block_k) {
    const std::vector<std::string> legal = legal_tiles(layout, quant.block(), kind);
    if (legal.empty())
      return fmt::format("layout {} has no kernel that gathers its rows; swap_ab and normal_wgmma have",
                         name(layout));
    return fmt::format("no {} kernel has tile {}; built are {}", name(layout), to_string(tile),
                       fmt::join(legal, ", "));
  }
  const GemmConfig& gemm = variant->gemm;
  if (tile.stages != 0 && tile.stages != gemm.stages) {
    return fmt::format("tile {}: {} with {}x{} is built with {} stages, not {}", to_string(tile),
                       name(layout), tile.block_m, tile.block_n, gemm.stages, tile.stages);
  }
  if (tile.warps != 0 && tile.warps != gemm.math_warps()) {
    return fmt::format("tile {}: {} runs {} math warps, not {}", to_string(tile), name(layout),
                       gemm.math_warps(), tile.warps);
  }
  if (tile.group_m != 1 || tile.cluster != 1 || tile.split_k != 1) {
    return fmt::format("tile {}: the built-in kernels have group_m, cluster and split_k of 1",
                       to_string(tile));
  }
  return {};
}

}  // namespace moe::device
