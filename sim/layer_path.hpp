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

}  // namespace moe::sim
