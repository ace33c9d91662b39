// What do the conformance kernels take, and which are there? Plain host code. Each kernel uses a few
// primitives of the layer and writes all that they produce, so that the bytes of a card and of the emulated
// SM can be compared.
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"

namespace moe::hopper::conformance {

struct Params {
  TensorMap a, b;  // boxes of 64 rows and of `n` rows, as wide as the swizzle says
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int32_t n;     // bytes, elements or rows, as the kernel says
  std::int32_t x, y;  // corner of a box
};

struct Kernel {
  const char* name;  // the entry's name in the cubin
  int threads, shared_bytes;
};

/// wgmma_N: out f32 [64][N] = sum over 128 k of A[64][128] * B[N][128]^T, twice (second pass accumulates).
/// tma_box: out = the 64 x n bytes of shared memory after the copy of the box at (x, y), n = the swizzle's
/// row. bulk_copy: out[0..n) = in[0..n) through shared memory. n <= 4096. mma: in = e4m3 A[16][16], B[8][16];
/// out f32 [16][8] = A * B^T + 1. convert: in f32 [n]; out per element: to_e4m3 (u32), f16 pair of codes i,
/// i+1, i+2, i+3 (2 x u32), pack_bf16(x, -x),
///   max_mag(x, in[n-1-i]), div_rn(x, in[n-1-i]), sqrt_rn(|x|), fma_rn(x, x, in[n-1-i]): 8 words. n <= 128.
/// exchange: out u32 per thread: shfl_xor, shfl_idx, ballot, popc, and how many lanes were elected.
/// redux: in u32 [64]; out u32 per thread: redux_max, redux_min of its warp.
/// reduce: in u32 [128]; out[0] += in, out[1] = max(out[1], in).
/// wgmma_b64, wgmma_b32, wgmma_none: out f32 [64][64] = A[64][128] * B[64][128]^T, tiles of that swizzle.
/// phases: in 64 bytes; out u32 [9]: what try_wait says of both parities from one phase to the next, and in's
/// last word. grid_words: cooperative, in u32 [128]; out u32 [64 + 128 * CTAs], 0 before, what CTAs read of
/// each other.
/// registers: in u32 [128]; out u32 [384]: sums of words that two warpgroups hold 160 of, each in a register
/// that the third has given them.
inline constexpr Kernel kKernels[] = {
    {"wgmma_8", 128, 41088},
    {"wgmma_16", 128, 41088},
    {"wgmma_24", 128, 41088},
    {"wgmma_32", 128, 41088},
    {"wgmma_48", 128, 41088},
    {"wgmma_64", 128, 41088},
    {"wgmma_96", 128, 41088},
    {"wgmma_128", 128, 41088},
    {"wgmma_192", 128, 41088},
    {"wgmma_256", 128, 41088},
    {"tma_box", 128, 8320},
    {"bulk_copy", 128, 8320},
    {"mma", 32, 0},
    {"convert", 128, 0},
    {"exchange", 64, 0},
    {"reduce", 128, 0},
    {"redux", 64, 0},
    {"wgmma_b64", 128, 16448},
    {"wgmma_b32", 128, 16448},
    {"wgmma_none", 128, 16448},
    {"phases", 32, 1088},
    {"grid_words", 128, 1088},
    {"registers", 384, 0},
};
inline constexpr int kKernelCount = int(sizeof(kKernels) / sizeof(kKernels[0]));
inline constexpr int kWgmmaWidths[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

}  // namespace moe::hopper::conformance
