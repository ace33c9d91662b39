// Parameters of place_rows (place_rows.cuh). "Sorted rows" are the rows of the expert-sorted activations.
// Outputs that are null are not wanted.
#pragma once
#include <cstdint>

namespace moe::device {

/// Most ids that place_rows counts itself; the words of shared memory it takes.
inline constexpr int kRankedIds = 128, kPlaceWords = 3 * 32 + 2 * kRankedIds;

struct PlaceRowsParams {
  const std::int32_t* ids;   // [count] as count_rows reads them
  const std::int32_t* rows;  // [experts] of count_rows
  std::int32_t*
      counted_rows;  // [experts] out, where count <= kRankedIds and count_rows did not run; else null
  std::int64_t count;
  std::int32_t first_expert, experts;
  std::int32_t row_align;   // every expert's first sorted row is a multiple of it
  std::int32_t padding;     // what pair_of_row holds where no pair is
  std::int32_t block_m[2];  // tokens a tile of GEMM 1 and of GEMM 2

  std::int32_t* row_start;       // [experts + 1]; the last entry is the end of all rows, padding included
  std::int32_t* block_start[2];  // [experts + 1] prefix sum of ceil(rows / block_m)
  std::int32_t* row_of_pair;     // [count] pair -> sorted row, -1 where the pair is not local
  std::int32_t* pair_of_row;     // [capacity] sorted row -> pair, `padding` elsewhere
  std::int64_t capacity;

  /// [blocks] for each block_m[0] rows: the expert's place in [named_first, +named_experts), -1 where it has
  /// none and past the last block.
  std::int32_t* expert_of_block;
  std::int64_t blocks;
  std::int32_t named_first, named_experts;
  std::int32_t* padded_rows;  // [1] = row_start[experts]
};

}  // namespace moe::device
