// How does a chain's result join the fp32 sum? The operations between tensor core and output, 16 columns at a
// time.
#pragma once
#include "fixtures/problem/semantics.hpp"
#include "reference/tensor_core/chain.hpp"

namespace moe::reference {

/// acc[16] takes part[16] under a block's two scales (exact_gemm.hpp, "block128").
using PromoteBlock = void (*)(const float* part, float a_scale, float w_scale, float* acc);
PromoteBlock promote_block(ScaleOrder order, Level level);

/// acc[16] += part[16].
void promote_plain_sum(const float* part, float* acc);

/// acc scaled behind the whole chain (exact_gemm.hpp, "others").
float scale_chain(ScaleOrder order, float acc, float a_scale, float w_scale);

}  // namespace moe::reference
