// What would a model of one line say? The baseline that this folder has to beat: a roofline of whole tiles
// and a constant. Its constants were chosen by eye on the public H200 measurements that it is held against,
// which is more than the model of this folder was allowed. Seconds.
#pragma once
#include <cstdint>

#include "fixtures/problem/problem.hpp"

namespace moe::sim {

/// Dense FP8 GEMM: waves of 128x128 tiles at 1.4 GHz of the full rate on 132 SMs, or all bytes once at 4.3
/// TB/s; + 4 us.
double naive_dense_seconds(std::int64_t m, std::int64_t n, std::int64_t k);

/// Each grouped GEMM: the 3-norm of its bytes at 4.1 TB/s and of its rows, padded to 64, at 0.85 PFLOP/s. A
/// layer adds 25 us, a GEMM by itself 4 us.
double naive_moe_seconds(const Problem& problem, const ExpertLoad& load);

}  // namespace moe::sim
