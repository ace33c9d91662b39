#include "device/session/launches.hpp"

#include <algorithm>

#include "device/planted/planted.hpp"
#include "device/session/device_rows.hpp"
#include "device/session/kernel_catalog.hpp"

namespace moe::device {
namespace {

constexpr unsigned kWarp = 32;

template <class Params>
void launch_named(Machine& machine, const char* kernel, std::int64_t grid, unsigned block,
                  const Params& params, bool dependent) {
  static_assert(alignof(Params) <= 16);
  const Variant& variant = kVariants[variant_named(kernel)];
  if (planted(Fault::grid_clamped_to_65535)) grid = std::min<std::int64_t>(grid, 65535);
  launch(machine, variant.index,
         LaunchConfig{static_cast<unsigned>(grid), block, static_cast<std::size_t>(variant.shared_bytes),
                      dependent},
         params);
}

/// One warp scans few ids at once; many ids are shared out over eight.
unsigned scan_threads(std::int64_t ids) { return ids <= 2048 ? kWarp : 8 * kWarp; }

/// Threads and columns of a CTA that walks one row: a whole row where one scale belongs to it, else at most
/// 1024 columns, so that few tokens still fill the card.
struct RowSplit {
  unsigned threads;
  std::int64_t chunk, chunks;
};

RowSplit split_row(ScaleGranule granule, std::int64_t columns) {
  const std::int64_t whole = round_up(std::max<std::int64_t>(columns, 1), 128);
  const bool one_cta = granule == ScaleGranule::row;
  const std::int64_t chunk = one_cta ? whole : std::min<std::int64_t>(whole, 1024);
  const std::int64_t threads = round_up(std::min<std::int64_t>(chunk / 8, one_cta ? 256 : 128), kWarp);
  return {static_cast<unsigned>(threads), chunk, blocks_of(columns, chunk)};
}

}  // namespace

void launch_topk(Machine& machine, const TopkRouteParams& params, bool dependent) {
  const std::int64_t warps = std::min<std::int64_t>(params.tokens, 4);
  launch_named(machine, "topk_route", blocks_of(params.tokens, warps), unsigned(warps) * kWarp, params,
               dependent);
}

void launch_count(Machine& machine, const CountRowsParams& params, std::int32_t experts, bool dependent) {
  launch_named(machine, "count_rows", experts, scan_threads(params.count), params, dependent);
}

void launch_place(Machine& machine, const PlaceRowsParams& params, bool dependent) {
  const bool ranked = params.counted_rows != nullptr;
  const auto one_each = unsigned(std::clamp<std::int64_t>(round_up(params.count, kWarp), kWarp, 8 * kWarp));
  launch_named(machine, "place_rows", params.experts, ranked ? one_each : scan_threads(params.count), params,
               dependent);
}

void launch_expert_of_rows(Machine& machine, const ExpertOfRowsParams& params, bool dependent) {
  const std::int64_t items = params.groups == RowGroups::routed ? params.entries : params.rows;
  launch_named(machine, "expert_of_rows", blocks_of(items, 128), 128, params, dependent);
}

void launch_gather(Machine& machine, const GatherRowsParams& params, std::int64_t sources, bool dependent) {
  launch_named(machine, "gather_rows", sources, 128, params, dependent);
}

void launch_quantize(Machine& machine, QuantizeParams params, bool dependent) {
  const RowSplit split = split_row(params.rule.granule, params.hidden.columns);
  params.chunk = std::int32_t(split.chunk);
  launch_named(machine, "quantize", params.hidden.tokens * split.chunks, split.threads, params, dependent);
}

void launch_act_quant(Machine& machine, ActQuantParams params, bool dependent) {
  const RowSplit split = split_row(params.rule.granule, params.gemm1.columns);
  params.chunk = std::int32_t(split.chunk);
  launch_named(machine, "act_quant", params.gemm1.pairs * split.chunks, split.threads, params, dependent);
}

void launch_combine(Machine& machine, const CombineParams& params, std::int64_t tokens, bool dependent) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(round_up(blocks_of(params.columns, 8), kWarp), kWarp, 128);
  launch_named(machine, "combine", tokens * blocks_of(params.columns, 8 * threads), unsigned(threads), params,
               dependent);
}

void launch_inv_rope_quant(Machine& machine, const InvRopeQuantParams& params, bool dependent) {
  const std::int64_t heads = std::int64_t(params.groups) * params.heads_per_group;
  launch_named(machine, "inv_rope_quant",
               blocks_of(params.tokens, kRopeTokens) * blocks_of(heads, kRopeHeads), kRopeTokens * kWarp,
               params, dependent);
}

void launch_generate(Machine& machine, const GenerateWeightsParams& params, bool dependent) {
  const std::int64_t blocks = blocks_of(params.rows * params.columns, 16) + 1;
  launch_named(machine, "generate_weights",
               std::clamp<std::int64_t>(blocks_of(blocks, 256), 1, 8 * machine.sms()), 256, params,
               dependent);
}

std::int32_t amax_partials(std::int64_t rows) { return std::int32_t(std::clamp<std::int64_t>(rows, 1, 512)); }

void launch_hidden_amax(Machine& machine, const HiddenAmaxParams& params, bool dependent) {
  const unsigned threads = split_row(ScaleGranule::row, params.hidden.columns).threads;
  launch_named(machine, "hidden_amax", amax_partials(params.hidden.tokens), threads, params, dependent);
}

void launch_act_amax(Machine& machine, const ActAmaxParams& params, bool dependent) {
  const unsigned threads = split_row(ScaleGranule::row, params.gemm1.columns).threads;
  launch_named(machine, "act_amax", amax_partials(params.gemm1.pairs), threads, params, dependent);
}

}  // namespace moe::device
