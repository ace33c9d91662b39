// What is the least time that a stage of a layer can take on a card? The fewest bytes that have to cross its
// memory bus and the operations that have to be done, whatever the kernel. Bytes, FLOP (2 a multiply-add),
// seconds.
#pragma once
#include "fixtures/problem/problem.hpp"

namespace moe::sim {

enum class LimitStage { gemm1, gemm2, layer };
std::string_view name(LimitStage stage);

/// Cold weights of every expert that has a row, read once. gemm1: the tokens' codes once (not once a row),
/// the bf16 rows written; gemm2: the rows' codes, the bf16 rows written; block128: 4 bytes a scale of both
/// operands. layer: both weights (scales not counted), bf16 activations in and out.
struct FewestWork {
  double bytes = 0, flop = 0;
  /// Of a layer of two launches: `bytes` and GEMM 2's bf16 rows written and read once. Else `bytes`.
  double staged_bytes = 0;
};

/// Throws BadInput where the problem is no whole layer and no GEMM of one.
FewestWork fewest_work(const Problem& problem, const ExpertLoad& load, LimitStage stage);

/// What a card was seen to do at best: a read-only stream, and a dense GEMM of the same scale scheme (a
/// burst, before the clock gives way).
struct Ceilings {
  double bytes_per_s = 0, flop_per_s = 0;
};

/// Best figures known of an H200: 4.57 TB/s; 1.34 PFLOP/s with scales of 128 x 128 blocks, else 1.49
/// (cuBLASLt, 8192^3). A run that measured more hands in its own.
Ceilings h200_ceilings(const QuantScheme& quant);

double limit_seconds(double bytes, double flop, const Ceilings& ceilings);

}  // namespace moe::sim
