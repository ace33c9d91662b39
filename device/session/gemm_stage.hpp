// How is one grouped GEMM launched? Its variant, its grid and its parameters from a plan, quantised rows and
// weights.
#pragma once
#include <cstdint>
#include <vector>

#include "device/kernels/grouped_gemm_params.hpp"
#include "device/session/quantized_rows.hpp"
#include "device/session/row_plan.hpp"
#include "device/session/weight_set.hpp"
#include "fixtures/problem/choice.hpp"

namespace moe::device {

struct GemmStage {
  int variant = 0;
  unsigned grid = 1;
  GroupedGemmParams params{};
};

/// `which`: 0 = GEMM 1, 1 = GEMM 2, whose block_m of the plan is taken; `block_n` is its tile's. `out_row`
/// may be null (rows stay sorted). The grid is min(tiles that `most_rows` rows can need, SMs): it does not
/// wait for the row counts.
GemmStage make_gemm(Machine& machine, Layout layout, int block_n, const RowPlan& plan, int which,
                    std::int64_t most_rows, const QuantizedRows& tokens, const WeightSet& weights,
                    const Rows& out, const std::int32_t* out_row);

void launch_gemm(Machine& machine, const GemmStage& stage, bool dependent);

/// Rows of each expert in the plan of the last run.
std::vector<std::int32_t> download_expert_rows(Machine& machine, const RowPlan& plan);
/// Output tiles for these rows, and bytes of the experts that have any.
std::int64_t tiles_of(const std::vector<std::int32_t>& rows, const TileConfig& tile, std::int64_t n);
std::int64_t active_bytes(const std::vector<std::int32_t>& rows, const WeightSet& weights);

}  // namespace moe::device
