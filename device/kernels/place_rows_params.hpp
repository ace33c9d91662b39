// Parameters of place_rows (place_rows.cuh). "Sorted rows" are the rows of the expert-sorted activations.
#pragma once
#include <cstdint>

namespace moe::device {

struct PlaceRowsParams {
  const std::int32_t* ids;   // [count] as count_rows reads them
  const std::int32_t* rows;  // [experts] of count_rows
  std::int64_t count;
  std::int32_t first_expert, experts;
  std::int32_t row_align;        // every expert's first sorted row is a multiple of it
  std::int32_t padding;          // what pair_of_row holds where no pair is
  std::int32_t block_m[2];       // tokens a tile of GEMM 1 and of GEMM 2
  std::int32_t* row_start;       // out [experts + 1]; the last entry is the end of all rows, padding included
  std::int32_t* block_start[2];  // out [experts + 1] prefix sum of ceil(rows / block_m); null = not wanted
  std::int32_t*
      row_of_pair;  // out [count] pair -> sorted row, -1 where the pair is not local; null = not wanted
  std::int32_t* pair_of_row;  // out [capacity] sorted row -> pair, `padding` elsewhere; null = not wanted
  std::int64_t capacity;      // entries of pair_of_row
  std::int32_t*
      expert_of_block;  // out [blocks] local expert of each block_m[0] rows, -1 past the last; null = no
  std::int64_t blocks;  // entries of expert_of_block
  std::int32_t* padded_rows;  // out [1] = row_start[experts]; null = not wanted
};

}  // namespace moe::device
