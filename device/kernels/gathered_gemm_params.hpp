// What does a grouped GEMM take that fetches its token rows itself? The parameters of grouped_gemm, whose
// `tokens` is then the map of the unsorted rows, and which of them each sorted row is.
#pragma once
#include <cstdint>

#include "device/kernels/grouped_gemm_params.hpp"

namespace moe::device {

struct GatheredGemmParams {
  GroupedGemmParams gemm;           // tokens: [token_rows, K], box one row x 128 bytes; a_scale: sorted rows
  const std::int32_t* pair_of_row;  // [sorted rows] pair; never read for a row that no expert owns
  std::int32_t top_k;               // token of a pair = pair / top_k
  std::int32_t token_rows;          // rows of `tokens`; this row is outside and arrives as zeros
};

}  // namespace moe::device
