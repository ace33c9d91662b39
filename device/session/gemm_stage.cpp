#include "device/session/gemm_stage.hpp"

#include <algorithm>
#include <stdexcept>

#include "device/planted/planted.hpp"
#include "device/session/kernel_catalog.hpp"
#include "fixtures/problem/auto_tile.hpp"

namespace moe::device {
namespace {

/// Four hide the weights' latency behind the kernel in front; more delay its own accesses: a layer of
/// DeepSeek-V3 TP8 at 1 token takes 32.5 to 33.8 us with 2 to 16 of them on an H200, at 8 tokens 95.6 without
/// any, 93.7 from 4 on.
constexpr std::int32_t kEarlyKBlocks = 4;

}  // namespace

GemmStage make_gemm(Machine& machine, Layout layout, int block_n, const RowPlan& plan, int which,
                    std::int64_t most_rows, const QuantizedRows& tokens, const WeightSet& weights,
                    const Rows& out, const std::int32_t* out_row) {
  const QuantScheme& quant = tokens.quant;
  const int block_m = plan.block_m[which];
  const Variant* variant = find_gemm(layout, block_m, block_n, quant.block());
  if (variant == nullptr) throw std::logic_error("make_gemm: the tile was not checked");
  GemmStage stage;
  if (planted(Fault::kernel_of_another_tile)) variant = find_gemm(layout, 2 * block_m, 128, quant.block());
  stage.variant = variant->index;
  const std::int64_t panels = blocks_of(weights.n, block_n);
  stage.grid =
      unsigned(std::min<std::int64_t>(most_blocks(most_rows, plan.experts, block_m) * panels, machine.sms()));
  GroupedGemmParams& p = stage.params;
  describe_weights(machine, p, weights, block_n);
  p.tokens = machine.tensor_map(tokens.codes.address, std::uint64_t(tokens.codes.rows),
                                std::uint64_t(tokens.codes.columns), std::uint64_t(tokens.codes.stride),
                                unsigned(block_m));
  p.row_start = pointer<std::int32_t>(plan.row_start);
  p.rows = pointer<std::int32_t>(plan.rows);
  p.block_start = pointer<std::int32_t>(plan.block_start[planted(Fault::plan_of_gemm1_for_gemm2, 0, which)]);
  p.a_scale = pointer<float>(tokens.scales);
  p.a_scale_ld = quant.block() ? std::int32_t(tokens.ld) : quant.tensor() ? 0 : 1;
  p.out = pointer<std::uint16_t>(out.address);
  p.out_row = out_row;
  p.early_k_blocks = kEarlyKBlocks;
  p.ld_out = std::int32_t(out.stride_elements());
  return stage;
}

GemmStage make_gathered_gemm(Machine& machine, Layout layout, int block_n, const RowPlan& plan,
                             std::int64_t most_rows, const Rows& rows, std::int32_t top_k,
                             const QuantizedRows& scales, const WeightSet& weights, const Rows& out) {
  const Variant* variant =
      find_gemm(layout, plan.block_m[0], block_n, scales.quant.block(), KernelKind::gathered_gemm);
  if (variant == nullptr) throw std::logic_error("make_gathered_gemm: the tile was not checked");
  GemmStage stage = make_gemm(machine, layout, block_n, plan, 0, most_rows, scales, weights, out, nullptr);
  stage.variant = variant->index;
  stage.params.tokens = machine.tensor_map(rows.address, std::uint64_t(rows.rows),
                                           std::uint64_t(rows.columns), std::uint64_t(rows.stride), 1);
  stage.pair_of_row = pointer<std::int32_t>(plan.pair_of_row);
  stage.top_k = top_k;
  stage.token_rows = std::int32_t(rows.rows);
  return stage;
}

void launch_gemm(Machine& machine, const GemmStage& stage, bool dependent) {
  const Variant& variant = kVariants[stage.variant];
  if (variant.kind == KernelKind::gathered_gemm) {
    const GatheredGemmParams params{stage.params, stage.pair_of_row, stage.top_k, stage.token_rows};
    return launch(
        machine, stage.variant,
        LaunchConfig{stage.grid, unsigned(variant.threads), std::size_t(variant.shared_bytes), dependent},
        params);
  }
  const int shared = planted(
      Fault::shared_memory_over_limit, variant.shared_bytes + 100'000,
      planted(Fault::shared_memory_too_small, variant.gemm.block_start_offset(), variant.shared_bytes));
  launch(machine, stage.variant,
         LaunchConfig{stage.grid, unsigned(variant.threads), std::size_t(shared), dependent}, stage.params);
}

std::vector<std::int32_t> download_expert_rows(Machine& machine, const RowPlan& plan) {
  return download_array<std::int32_t>(machine, plan.rows, plan.experts);
}

std::int64_t tiles_of(const std::vector<std::int32_t>& rows, const TileConfig& tile, std::int64_t n) {
  std::int64_t blocks = 0;
  for (std::int32_t r : rows) blocks += blocks_of(r, tile.block_m);
  return blocks * blocks_of(n, tile.block_n);
}

std::int64_t active_bytes(const std::vector<std::int32_t>& rows, const WeightSet& weights) {
  return expert_bytes(weights) *
         std::count_if(rows.begin(), rows.end(), [](std::int32_t r) { return r > 0; });
}

}  // namespace moe::device
