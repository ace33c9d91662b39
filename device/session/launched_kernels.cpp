#include "device/session/launched_kernels.hpp"

#include <stdexcept>

#include "device/session/kernel_catalog.hpp"
#include "device/session/layer_path.hpp"
#include "device/session/row_plan.hpp"

namespace moe::device {
namespace {

std::string gemm_name(const Case& c, const TileConfig& tile, KernelKind kind) {
  const Variant* variant =
      find_gemm(c.choice.layout, tile.block_m, tile.block_n, c.problem.quant.block(), kind);
  if (variant == nullptr) throw std::logic_error("launched_kernels: the case was not checked");
  return variant->name;
}

}  // namespace

std::vector<std::string> launched_kernels(const Case& c) {
  const LayerPath path = layer_path(c.choice.kernel).value();
  const bool dynamic = c.problem.quant.kind == QuantKind::tensor_dynamic;
  std::vector<std::string> names;
  const auto add = [&](const char* name, bool launched = true) {
    if (launched) names.push_back(kVariants[variant_named(name)].name);
  };
  add("topk_route", !c.problem.routing.given());
  add("count_rows", needs_count(c.problem.shape.pairs()));
  add("place_rows");
  add("hidden_amax", dynamic);
  add("quantize");
  add("gather_rows", path == LayerPath::grouped);
  names.push_back(gemm_name(c, c.choice.tile,
                            path == LayerPath::fused ? KernelKind::gathered_gemm : KernelKind::grouped_gemm));
  add("act_amax", dynamic);
  add("act_quant");
  names.push_back(gemm_name(c, c.choice.tile_down, KernelKind::grouped_gemm));
  add("combine");
  return names;
}

}  // namespace moe::device
