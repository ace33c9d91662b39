// What does sim see where device sees a line of variants.hpp? The GemmShape that a grouped-GEMM variant runs.
#pragma once
#include <vector>

#include "device/kernels/gemm_variant.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::test {

inline Layout layout_of(const device::GemmConfig& config) {
  switch (config.kind) {
    case device::GemmKind::normal_mma:
      return Layout::normal_mma;
    case device::GemmKind::normal_wgmma:
      return Layout::normal_wgmma;
    case device::GemmKind::swap_ab:
      break;
  }
  return Layout::swap_ab;
}

inline sim::GemmShape shape_of(const device::GemmConfig& config, std::int64_t n, std::int64_t k) {
  sim::GemmShape shape;
  shape.name = "grouped_gemm";
  shape.n = n;
  shape.k = k;
  shape.layout = layout_of(config);
  shape.tile.block_m = config.block_m;
  shape.tile.block_n = config.block_n;
  shape.block_scales = config.block_scales();
  return shape;
}

inline std::vector<int> gemm_variants() {
  std::vector<int> all;
  for (const device::Variant& v : device::kVariants)
    if (v.kind == device::KernelKind::grouped_gemm) all.push_back(v.index);
  return all;
}

}  // namespace moe::test
