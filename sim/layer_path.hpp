// In which way do tokens reach the GEMMs of the built-in layer, by the contract of its three kernels? Written
// here from the contract, as tiles.hpp is.
#pragma once
#include <string_view>

namespace moe::sim {

/// The built-in layer, and its two other paths: `fused` fetches token rows in GEMM 1, one TMA box of 128
/// bytes each, from codes that quantize wrote once a token; `grouped` copies them into sorted order with a
/// kernel of its own, as FlashInfer's and CUTLASS's layers do.
inline constexpr std::string_view kOwnKernel = "moeproof", kFusedKernel = "moeproof_fused",
                                  kGroupedKernel = "moeproof_grouped";

/// SM cycles of the loading warp for each one-row box beyond the first, which costs what any load does.
/// Estimated, no row measures it: the copy engine needs two for its 128 bytes (fill_bytes_per_cycle), and the
/// lanes of a warp hand their boxes over one after another, which cannot take less.
inline constexpr double kCyclesPerGatheredRow = 4;

}  // namespace moe::sim
