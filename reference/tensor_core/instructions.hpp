// What does one element of one tensor-core instruction of SM90 give, to the bit? Plain code for reading; the
// fast paths (chain.hpp, mma_step.hpp) are tested to be equal to it.
#pragma once
#include <cstdint>

#include "reference/tensor_core/number.hpp"

namespace moe::reference {

/// wgmma.mma_async.m64nNk32: 32 products and c in one fused sum (kFp8Unit). a, b: 32 codes each. c and the
/// result are bit patterns of `acc`. scale-d = 0 is c = +0; a chain of k32 steps passes the result on as the
/// next c.
std::uint32_t wgmma_k32(Fp8 fa, const std::uint8_t* a, Fp8 fb, const std::uint8_t* b, AccumulatorFormat acc,
                        std::uint32_t c);

/// mma.sync.m16n8k16 with f16 operands: 16 products and c in one fused sum (kF16Unit). a, b: 16 f16 patterns
/// each.
std::uint32_t hmma_k16(const std::uint16_t* a, const std::uint16_t* b, AccumulatorFormat acc,
                       std::uint32_t c);

/// mma.sync.m16n8k32 with FP8 operands. SM90 has no such unit: ptxas 13.0 unpacks to f16, chains two
/// HMMA.16816 from zero (first the k with k mod 4 in {0, 1}, then the others) and adds c with one FADD or
/// HADD2, nearest even.
std::uint32_t mma_sync_fp8_k32(Fp8 fa, const std::uint8_t* a, Fp8 fb, const std::uint8_t* b,
                               AccumulatorFormat acc, std::uint32_t c);

/// The f16 pattern of an FP8 code: exact for every number, infinity and NaN stay what they are.
std::uint16_t fp8_to_f16(Fp8 f, std::uint8_t code);

/// IEEE addition of two f16 patterns, nearest even; NaN is 0x7FFF.
std::uint32_t add_f16(std::uint32_t x, std::uint32_t y);

}  // namespace moe::reference
