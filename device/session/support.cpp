// What do the built-in kernels take, and what do they declare about their roundings?
#include <fmt/format.h>

#include "device/kernels/grouped_gemm_params.hpp"
#include "device/kernels/topk_route_params.hpp"
#include "device/session/kernel_catalog.hpp"
#include "device/session/layer_path.hpp"
#include "device/session/moe_session.hpp"
#include "fixtures/problem/auto_tile.hpp"

namespace moe::device {
namespace {

/// Chains restart every 128 k in all layouts; normal_mma converts to f16 and multiplies on mma.sync.
std::optional<Semantics> moeproof_semantics(const Problem& problem, const Choice& choice) {
  const bool mma = choice.layout == Layout::normal_mma;
  Semantics s = semantics_preset(mma ? "moeproof-hmma" : "moeproof", problem.quant);
  s.promote_k = GemmConfig::block_k;
  s.weight_place = problem.shape.weight_on_input ? WeightPlace::input : WeightPlace::combine;
  return s;
}

bool uses_gemm(Op op) { return op == Op::grouped_gemm || op == Op::moe_layer; }
bool uses_tile(Op op) { return uses_gemm(op) || op == Op::align; }

std::string refuse_router(const Problem& p) {
  if (p.shape.experts > kMaxRouterExperts) {
    return fmt::format("the router kernel takes up to {} experts, not {}", kMaxRouterExperts,
                       p.shape.experts);
  }
  if (p.shape.top_k > kMaxTopK)
    return fmt::format("the router kernel takes top_k up to {}, not {}", kMaxTopK, p.shape.top_k);
  if (p.routing.router.groups > kMaxRouterGroups) {
    return fmt::format("the router kernel takes up to {} groups, not {}", kMaxRouterGroups,
                       p.routing.router.groups);
  }
  return {};
}

std::string refuse_gemm(const Problem& p, const Choice& choice) {
  const std::int64_t inter = p.shape.local_intermediate();
  if (p.quant.block() && (p.shape.hidden % kScaleBlock != 0 || inter % kScaleBlock != 0)) {
    return fmt::format("block128 needs sizes that are multiples of {}, not hidden {} and intermediate {}",
                       kScaleBlock, p.shape.hidden, inter);
  }
  if (p.shape.local_experts() > kMaxGemmExperts) {
    return fmt::format("the grouped GEMM takes up to {} experts a rank, not {}", kMaxGemmExperts,
                       p.shape.local_experts());
  }
  constexpr std::int64_t kMostRows = (std::int64_t(1) << 31) - 1;
  if (p.shape.pairs() + 8 * p.shape.local_experts() > kMostRows)
    return fmt::format("sorted rows are numbered in 32 bits; {} tokens of top {} are more", p.shape.tokens,
                       p.shape.top_k);
  const KernelKind up =
      layer_path(choice.kernel) == LayerPath::fused ? KernelKind::gathered_gemm : KernelKind::grouped_gemm;
  if (std::string refusal = refuse_tile(choice.layout, choice.tile, p.quant, up); !refusal.empty())
    return refusal;
  return p.op == Op::moe_layer ? refuse_tile(choice.layout, choice.tile_down, p.quant) : std::string();
}

}  // namespace

KernelInfo moeproof_kernel() {
  KernelInfo info;
  info.name = "moeproof";
  info.family = KernelFamily::tma_persistent;
  info.ops = {Op::topk,      Op::align,   Op::quantize,  Op::grouped_gemm,
              Op::act_quant, Op::combine, Op::moe_layer, Op::inv_rope_quant};
  info.stages = {"topk_ids",  "topk_weights", "x_codes", "x_scale", "gemm1",
                 "act_codes", "act_scale",    "gemm2",   "out"};
  info.deterministic = true;
  info.semantics = moeproof_semantics;
  return info;
}

std::vector<KernelInfo> built_in_kernels() {
  std::vector<KernelInfo> kernels{moeproof_kernel()};
  for (const LayerPath path : {LayerPath::fused, LayerPath::grouped}) {
    kernels.push_back(kernels.front());
    kernels.back().name = kernel_name(path);
    kernels.back().ops = {Op::moe_layer};
  }
  return kernels;
}

std::string refuse_case(const Case& c) {
  const Problem& p = c.problem;
  const auto path = layer_path(c.choice.kernel);
  if (!path)
    return fmt::format("kernel {} is not built in; moeproof, moeproof_fused and moeproof_grouped are",
                       c.choice.kernel);
  if (*path != LayerPath::scatter && p.op != Op::moe_layer)
    return fmt::format("kernel {} is a path of moe_layer, not of {}; moeproof has that", c.choice.kernel,
                       name(p.op));
  const bool routes = p.op == Op::topk || (p.op == Op::moe_layer && !p.routing.given());
  if (routes) {
    if (std::string refusal = refuse_router(p); !refusal.empty()) return refusal;
  }
  if (p.op == Op::align && (c.choice.tile.block_m < 1 || c.choice.tile.block_m > 1024)) {
    return fmt::format("align takes block_m 1..1024, not {}", c.choice.tile.block_m);
  }
  return uses_gemm(p.op) ? refuse_gemm(p, c.choice) : std::string();
}

Case resolve_case(const Case& c) {
  if (!uses_tile(c.problem.op) || (!c.choice.tile.automatic() && !c.choice.tile_down.automatic())) return c;
  Case resolved = c;
  ExpertLoad load;
  if (c.choice.tile.automatic()) {
    const Routing routing = make_routing(c.problem.routing, c.problem.shape, c.problem.seed);
    const int experts = c.problem.shape.local_experts();
    load = routing.load(c.problem.rank * experts, experts);
  }
  resolved.choice = resolve_tiles(c.choice, c.problem, load);
  return resolved;
}

}  // namespace moe::device
