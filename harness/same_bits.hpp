// Of which stages does every correct kernel give the same bits, whatever its order of sums, instruction or
// formulas? By the data modes `exact` and `coded` (fixtures/README.md, "Data modes"); a kernel that declares
// nothing is judged there like one that does.
#pragma once
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

enum class JudgedStage { quantize, gemm1, act_quant, gemm2, combine };  // gemm1: op=grouped_gemm's c as well

/// `inputs` are the case's: routing weights are read where they are given (a trace).
bool same_bits_for_all(const Problem& problem, const TensorSet& inputs, JudgedStage stage);

/// All that an op by itself gives; false of a layer.
bool same_bits_for_op(const Problem& problem, const TensorSet& inputs);

/// `out` of a whole layer, whatever lies before it.
bool same_bits_for_whole_layer(const Problem& problem, const TensorSet& inputs);

}  // namespace moe::harness
