// Which chain kernels exist? One a file; chain.cpp chooses.
#pragma once
#include "reference/tensor_core/chain.hpp"

namespace moe::reference {

extern const ChainKernel kWgmmaPlain, kWgmmaAvx2, kWgmmaAvx512;
extern const ChainKernel kHmmaPlain[2], kHmmaAvx2[2], kHmmaAvx512[2];  // contiguous, interleaved4

/// MmaStep::mma_f16 of both fast levels: 8 columns fill an AVX2 vector.
void mma_f16_avx2(const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d);

}  // namespace moe::reference
