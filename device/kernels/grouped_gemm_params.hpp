// What does a grouped GEMM kernel take? One struct, the same bytes for the card and the emulated SM.
//   out[row][n] = bf16( scale( sum over k of tokens[row][k] * weights[e][n][k] ) + bias[e][n] )   for the
//   rows of expert e
// Sizes are elements, codes are e4m3 bytes, scales f32. Only tokens, a_scale and out may belong to the kernel
// in front of a dependent launch: weights, biases and the tables of rows are read before the wait for it, so
// they were finished before that kernel began.
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"

namespace moe::device {

/// Longest list of experts a launch may carry: block_start is kept in shared memory.
inline constexpr int kMaxGemmExperts = 1024;

struct GroupedGemmParams {
  hopper::TensorMap tokens;         // [sorted rows, K], box block_m rows x 128 bytes
  hopper::TensorMap weights;        // [experts * N, K], box 128 rows x 128 bytes
  const std::int32_t* row_start;    // [experts] first sorted row of an expert, a multiple of 8
  const std::int32_t* rows;         // [experts] its rows
  const std::int32_t* block_start;  // [experts + 1] prefix sum of ceil(rows / block_m)
  /// Scales of the tokens. block: [ceil(K/128)][a_scale_ld], 16-byte aligned, a_scale_ld a multiple of 4,
  /// readable for block_m rows from every block's first row. flat: row r at a_scale[r * a_scale_ld]; 1 = a
  /// scale a row, 0 = one in all.
  const float* a_scale;
  /// Scales of the weights. block: [experts][ceil(N/128)][ceil(K/128)]. flat: expert e, column n at
  /// w_scale[e * w_scale_expert + n * w_scale_column]; (N, 1) = a scale a channel, (1, 0) = one an expert.
  const float* w_scale;
  const float* bias;   // [experts][N], or null
  std::uint16_t* out;  // bf16 rows of ld_out elements, 2-byte aligned; 16-byte stores where all is aligned
  const std::int32_t* out_row;  // sorted row -> row of out, -1 = not written; null = the sorted row itself
  std::int32_t n, k, experts;   // 1 <= experts <= kMaxGemmExperts
  std::int32_t ld_out;
  std::int32_t early_k_blocks;  // whose weights a CTA asks for before it waits for the kernel in front
  std::int32_t a_scale_ld, w_scale_expert, w_scale_column;
};

}  // namespace moe::device
