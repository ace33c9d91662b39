// Parameters of count_rows (count_rows.cuh).
#pragma once
#include <cstdint>

namespace moe::device {

struct CountRowsParams {
  const std::int32_t*
      ids;  // [count] expert of each pair; anything outside [first_expert, +gridDim.x) is not local
  std::int32_t* rows;  // out [local experts]
  std::int64_t count;
  std::int32_t first_expert;
};

}  // namespace moe::device
