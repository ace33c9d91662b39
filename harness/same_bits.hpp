// Of which stages does every correct kernel give the same bits, whatever its order of sums, instruction or
// formulas? By the data modes `exact` and `coded` (fixtures/README.md, "Data modes"); a kernel that declares
// nothing is judged there like one that does.
#pragma once
#include "fixtures/problem/problem.hpp"

namespace moe::harness {

enum class JudgedStage { quantize, gemm1, act_quant, gemm2, combine };  // gemm1: op=grouped_gemm's c as well

bool same_bits_for_all(const Problem& problem, JudgedStage stage);

}  // namespace moe::harness
