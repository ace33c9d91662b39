// Which line of variants.hpp is the grouped GEMM that a Choice asks for? Host only.
#pragma once
#include <optional>

#include "device/kernels/variants.hpp"
#include "fixtures/problem/choice.hpp"

namespace moe::device {

constexpr GemmKind gemm_kind(Layout layout) {
  switch (layout) {
    case Layout::normal_mma:
      return GemmKind::normal_mma;
    case Layout::normal_wgmma:
      return GemmKind::normal_wgmma;
    case Layout::swap_ab:
      break;
  }
  return GemmKind::swap_ab;
}

/// Index into kVariants, or nothing where no such tile is built.
constexpr std::optional<int> find_gemm_variant(Layout layout, int block_m, int block_n, ScaleKind scales,
                                               KernelKind kind = KernelKind::grouped_gemm) {
  for (const Variant& v : kVariants)
    if (v.kind == kind && v.gemm.kind == gemm_kind(layout) && v.gemm.block_m == block_m &&
        v.gemm.block_n == block_n && v.gemm.scales == scales)
      return v.index;
  return std::nullopt;
}

}  // namespace moe::device
