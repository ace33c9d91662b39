// How is one grouped GEMM launched? Its variant, its grid and its parameters from a plan, quantised rows and
// weights.
#pragma once
#include <cstdint>
#include <vector>

#include "device/kernels/gathered_gemm_params.hpp"
#include "device/session/quantized_rows.hpp"
#include "device/session/row_plan.hpp"
#include "device/session/weight_set.hpp"
#include "fixtures/problem/choice.hpp"

namespace moe::device {

struct GemmStage {
  int variant = 0;
  unsigned grid = 1;
  GroupedGemmParams params{};
  /// Where the kernel fetches its token rows itself: the plan's, else null, and pairs a token.
  const std::int32_t* pair_of_row = nullptr;
  std::int32_t top_k = 0, token_rows = 0;
};

/// `which`: 0 = GEMM 1, 1 = GEMM 2, whose block_m of the plan is taken; `block_n` is its tile's. `out_row`
/// may be null (rows stay sorted). The grid is min(tiles that `most_rows` rows can need, SMs): it does not
/// wait for the row counts.
GemmStage make_gemm(Machine& machine, Layout layout, int block_n, const RowPlan& plan, int which,
                    std::int64_t most_rows, const QuantizedRows& tokens, const WeightSet& weights,
                    const Rows& out, const std::int32_t* out_row);

/// The same with token rows that the kernel fetches from `rows` (canonical order) by plan.pair_of_row;
/// `scales` has their scales in sorted order, as make_gemm's `tokens` does.
GemmStage make_gathered_gemm(Machine& machine, Layout layout, int block_n, const RowPlan& plan,
                             std::int64_t most_rows, const Rows& rows, std::int32_t top_k,
                             const QuantizedRows& scales, const WeightSet& weights, const Rows& out);

void launch_gemm(Machine& machine, const GemmStage& stage, bool dependent);

/// Rows of each expert in the plan of the last run.
std::vector<std::int32_t> download_expert_rows(Machine& machine, const RowPlan& plan);
/// Output tiles for these rows, and bytes of the experts that have any.
std::int64_t tiles_of(const std::vector<std::int32_t>& rows, const TileConfig& tile, std::int64_t n);
std::int64_t active_bytes(const std::vector<std::int32_t>& rows, const WeightSet& weights);

}  // namespace moe::device
