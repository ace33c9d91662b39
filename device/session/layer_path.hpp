// In which way do tokens reach the GEMMs of a layer? The built-in layer has three paths, each a kernel name
// of its own; all give the same bits.
#pragma once
#include <optional>
#include <string_view>

namespace moe::device {

/// scatter: quantize writes each token's codes to the sorted rows of its pairs.
/// fused: quantize writes each token once, GEMM 1 fetches the rows of its tiles itself (Triton's fused MoE).
/// grouped: quantize writes each token once, a kernel copies the rows into sorted order, GEMM 1 reads those
/// (FlashInfer, CUTLASS, DeepGEMM). All three apply the weights and add the slots in one kernel, `combine`.
enum class LayerPath { scatter, fused, grouped };

constexpr std::string_view kernel_name(LayerPath path) {
  switch (path) {
    case LayerPath::scatter:
      return "moeproof";
    case LayerPath::fused:
      return "moeproof_fused";
    case LayerPath::grouped:
      break;
  }
  return "moeproof_grouped";
}

constexpr std::optional<LayerPath> layer_path(std::string_view kernel) {
  for (const LayerPath path : {LayerPath::scatter, LayerPath::fused, LayerPath::grouped})
    if (kernel == kernel_name(path)) return path;
  return std::nullopt;
}

}  // namespace moe::device
