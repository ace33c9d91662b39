// How long does CUTLASS's FP8 GEMM with block scales run (the one that vLLM and SGLang use for dense layers
// on Hopper)? out[m][n] = sum over k, tiles 128x128x128, clusters of two CTAs along n that share the token
// tile by multicast, persistent, a loading warp and two warpgroups of 64 tokens, scales promoted every 128 of
// k. Seconds.
//   first k-block at the memories' rate + sum of waves + one epilogue, in front of them prologue and latency.
// The epilogue leaves in pieces of 32 columns, each handed over through shared memory by itself.
#pragma once
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/problem.hpp"
#include "sim/schedule.hpp"

namespace moe::sim {

inline constexpr int kDenseTile = 128, kDenseCluster = 2, kDenseEpilogueColumns = 32;

/// The GEMM as a shape: normal_wgmma in the kernel's one tile. Throws BadInput for a problem that is not one
/// dense GEMM (grouped_gemm of one expert) with 128x128 block scales, or another tile.
GemmShape dense_gemm_shape(const Problem& problem, const Choice& choice);

Counts dense_counts(const GemmShape& gemm, std::int64_t m, int sms);

GemmTime schedule_dense_gemm(const Hardware& hardware, const GemmShape& gemm, std::int64_t m);

}  // namespace moe::sim
