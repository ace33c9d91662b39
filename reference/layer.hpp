// What does the whole layer give without any kernel? `spec`: the stages one after the other with the
// roundings that Semantics declares and sums in double. `ideal`: real arithmetic on the layer's inputs (bf16
// activations, dequantised weights), nothing rounded in between: the yardstick for what quantisation costs.
#pragma once
#include <span>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/tensor.hpp"
#include "reference/truth.hpp"

namespace moe::reference {

/// topk_ids and topk_weights: the inputs' own, or the router applied to router_logits and router_bias.
TensorSet routed(const Problem& problem, const TensorSet& inputs);

/// One stage as spec, over all rows; each gives canonical tensors (fixtures/README.md). Stages read
/// `tensors`.
TensorSet spec_quantize(const Problem&, const Semantics&, StageTensors tensors, int threads);
Tensor spec_gemm(const Problem&, const Semantics&, int gemm, StageTensors tensors, int threads);
TensorSet spec_act_quant(const Problem&, const Semantics&, StageTensors tensors, int threads);
Tensor spec_combine(const Problem&, const Semantics&, StageTensors tensors, int threads);
/// c of op=grouped_gemm in its contract's shape; rows that no group owns are left zero.
Tensor spec_grouped_gemm(const Problem&, const TensorSet& inputs, int threads);

/// All stage tensors of op=moe_layer, from topk_ids to out.
TensorSet spec_layer(const Problem&, const Semantics&, const TensorSet& inputs, int threads);

/// The same to the bit: every stage as Semantics says on the silicon (reference/exact).
TensorSet exact_layer(const Problem&, const Semantics&, const TensorSet& inputs, int threads);

/// out of token rows in real arithmetic: [tokens, hidden].
std::vector<double> ideal_layer(const Problem&, const TensorSet& inputs, std::span<const std::int64_t> tokens,
                                int threads);

}  // namespace moe::reference
