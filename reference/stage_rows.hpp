// What do the stages read besides codes? The bf16 rows of the layer as floats, and how a tensor-wide scale
// follows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "reference/quantize.hpp"
#include "reference/truth.hpp"

namespace moe::reference {

/// The routing weights [tokens, top_k] that multiply the input; null where none do. op=quantize on its own
/// need not have them (fixtures/README.md, "Ops").
const float* input_weights(const Problem& problem, StageTensors tensors);
/// hidden of a token, times its routing weight (rounded to bf16) where the shape says weight_on_input.
std::vector<float> hidden_row(const Problem& problem, StageTensors tensors, std::int64_t token);
/// A row of a bf16 matrix.
std::vector<float> bf16_row(const Tensor& tensor, std::int64_t row);

/// Where the routing weight multiplies: the shape's weight_on_input decides first, then Semantics (null:
/// combine).
WeightPlace weight_place(const Problem& problem, const Semantics* semantics);
/// Weight that combine applies to a pair.
double combine_weight(WeightPlace place, float topk_weight);

/// Groups of scales in a row of `columns`: block128 columns / 128 rounded up, else 1.
std::int64_t scale_groups(QuantKind kind, std::int64_t columns);
/// First column and width of a group.
struct ColumnRange {
  std::int64_t first = 0, count = 0;
};
ColumnRange group_columns(QuantKind kind, std::int64_t columns, std::int64_t group);

/// [0, count).
std::vector<std::int64_t> all_rows(std::int64_t count);

/// Largest magnitude of the hidden rows of all tokens: what a tensor-wide dynamic scale follows from.
float hidden_amax(const Problem& problem, StageTensors tensors, int threads);

}  // namespace moe::reference
