// Which built kernel answers a choice? Look-ups in device/kernels/variants.hpp, and the sentence that refuses
// a tile.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "device/kernels/variants.hpp"
#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/quant_scheme.hpp"

namespace moe::device {

/// Index of the variant with this name; throws std::logic_error when the table has none.
int variant_named(std::string_view name);

/// The grouped GEMM of a layout and tile under a scheme, or null.
const Variant* find_gemm(Layout layout, int block_m, int block_n, bool block_scales,
                         KernelKind kind = KernelKind::grouped_gemm);

/// Tiles that are built for a layout, "8x64x128", ascending.
std::vector<std::string> legal_tiles(Layout layout, bool block_scales,
                                     KernelKind kind = KernelKind::grouped_gemm);

/// One line why no grouped GEMM takes `tile`, naming what would be right; empty when one does.
std::string refuse_tile(Layout layout, const TileConfig& tile, const QuantScheme& quant,
                        KernelKind kind = KernelKind::grouped_gemm);

}  // namespace moe::device
