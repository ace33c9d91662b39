// Parameters of gather_rows (gather_rows.cuh). A source row is a pair (routed) or a row of the caller's
// activations.
#pragma once
#include <cstdint>

#include "device/kernels/expert_of_rows_params.hpp"
#include "device/kernels/scale_rule.hpp"

namespace moe::device {

struct GatherRowsParams {
  const std::uint8_t* codes = nullptr;   // e4m3, the caller's rows
  std::int64_t stride = 0, columns = 0;  // bytes from row to row; bytes that a row has
  std::int32_t row_divisor = 1;          // row of codes and scales = source / row_divisor
  const float* scales = nullptr;         // at [block * block_stride + row * row_stride]
  std::int64_t block_stride = 0, row_stride = 0;
  std::int32_t blocks = 0;                      // scales a row; 0 = none are moved
  const std::int32_t* row_of_source = nullptr;  // sorted row or -1
  QuantizedOut sorted;
  const std::int32_t* expert_of_row =
      nullptr;                   // where it says kZeroedRow, out's row is zeroed; null = nowhere
  std::uint16_t* out = nullptr;  // bf16 rows of out_columns
  std::int64_t out_columns = 0;
};

}  // namespace moe::device
