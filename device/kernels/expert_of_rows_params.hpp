// Parameters of expert_of_rows (expert_of_rows.cuh).
#pragma once
#include <cstdint>

namespace moe::device {

enum class RowGroups : std::int32_t { routed, masked, offsets };

/// What expert_of_row holds for a row that no group owns, and for one that must be written as zero.
inline constexpr std::int32_t kNoExpert = -1, kZeroedRow = -2;

struct ExpertOfRowsParams {
  RowGroups groups = RowGroups::routed;
  std::int32_t experts = 0;
  std::int64_t rows = 0;                           // entries of expert_of_row
  std::int32_t* expert_of_row = nullptr;           // out; routed: kNoExpert everywhere before
  const std::int32_t* sorted_token_ids = nullptr;  // routed [entries], values >= rows are padding
  const std::int32_t* expert_ids = nullptr;        // routed [entries / block_m]
  const std::int32_t* padded_rows = nullptr;       // routed [1] num_tokens_post_padded
  std::int64_t entries = 0;
  std::int32_t block_m = 1;
  const std::int32_t* counts = nullptr;   // masked [experts]
  std::int32_t max_m = 1;                 // masked: row = expert * max_m + i
  const std::int32_t* offsets = nullptr;  // offsets [experts + 1], ascending
};

}  // namespace moe::device
