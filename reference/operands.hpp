// Where are the codes and scales of a GEMM's operands, and which activation row meets which expert? Views
// over the canonical tensors (fixtures/README.md) of one grouped GEMM; the four contracts all become a list
// of rows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::reference {

/// e4m3 weights [experts, n, k] and their scales in the scheme's shape.
struct WeightView {
  QuantKind kind = QuantKind::block128;
  std::int64_t experts = 0, n = 0, k = 0;
  const std::uint8_t* codes = nullptr;
  const float* scales = nullptr;

  const std::uint8_t* row(std::int64_t expert, std::int64_t column) const {
    return codes + (expert * n + column) * k;
  }
  /// Scale of the block of 128 k's that holds `k_index`.
  float scale(std::int64_t expert, std::int64_t column, std::int64_t k_index) const;
};

/// e4m3 activations [rows, k]; the scale of row r and k-block b stands at scales[r * row_stride + b *
/// block_stride].
struct CodeView {
  std::int64_t k = 0;
  const std::uint8_t* codes = nullptr;
  const float* scales = nullptr;
  std::int64_t row_stride = 0, block_stride = 0;
  /// For a masked batch with scales [groups, k/128, ld]: rows of a group and floats between groups; 0 = one
  /// batch.
  std::int64_t group_rows = 0, group_stride = 0;

  float scale(std::int64_t row, std::int64_t k_index) const;
};

struct GemmRow {
  std::int64_t out = 0;      // row of the output
  std::int64_t act = 0;      // row of the activations
  std::int32_t expert = -1;  // local; -1 = the row is written as zero
};

/// One grouped GEMM over canonical tensors.
struct GroupedGemm {
  CodeView a;
  WeightView w;
  const float* bias = nullptr;        // [experts, n]
  const float* row_weight = nullptr;  // multiplies output row `out` after the bias (WeightPlace::gemm2)
  std::vector<GemmRow> rows;          // all rows that the contract owns, ascending in `out`
};

/// GEMM 1 or 2 of the layer: row `out` is the pair, GEMM 1 reads activation row pair / top_k, GEMM 2 row
/// pair. Only pairs of this rank's experts appear. Each tensor is taken from `outputs` if it is there, else
/// from `inputs`.
GroupedGemm layer_gemm(const Problem& problem, int gemm, const TensorSet& inputs, const TensorSet& outputs);
/// The same GEMM with its weights and biases only: no activations, no rows.
GroupedGemm layer_weights(const Problem& problem, int gemm, const TensorSet& inputs);
/// op=grouped_gemm under its contract.
GroupedGemm contract_gemm(const Problem& problem, const TensorSet& inputs);

/// The rows of `gemm` whose output row is in `wanted` (ascending or not; unknown rows are dropped).
std::vector<GemmRow> select_rows(const GroupedGemm& gemm, std::span<const std::int64_t> wanted);

/// Local expert of each pair, -1 where the pair has none on this rank.
std::vector<std::int32_t> local_experts(const Problem& problem, const Tensor& topk_ids);

/// outputs' tensor if it is there, else inputs'; throws std::out_of_range with the name.
const Tensor& lookup(const TensorSet& outputs, const TensorSet& inputs, std::string_view name);

}  // namespace moe::reference
