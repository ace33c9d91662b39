// What will a launch do, exactly? Closed forms for the grouped GEMMs, to be equal to what the emulated SM
// counts where instructions retire and to Nsight Compute on the card.
#pragma once
#include "fixtures/problem/counts.hpp"
#include "fixtures/problem/routing.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

/// Counts of one grouped GEMM launched on `sms` SMs for `pairs` (token, slot) rows, of which `load` arrived
/// here. Whole boxes and whole tiles count, padding included; the output leaves by ordinary stores, so
/// tma_store_bytes is 0.
Counts gemm_counts(const GemmShape& gemm, const ExpertLoad& load, std::int64_t pairs, int sms);

/// A rank without tokens launches nothing, nor does a grouped_gemm without rows.
bool launches_nothing(const Problem& problem, const ExpertLoad& load);

/// Counts of all GEMMs of the problem; all zero where nothing is launched.
Counts count(const Problem& problem, const Choice& choice, const ExpertLoad& load, int sms);

}  // namespace moe::sim
