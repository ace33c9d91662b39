// Parameters of combine (combine.cuh).
#pragma once
#include <cstdint>

namespace moe::device {

struct CombineParams {
  const std::uint16_t* gemm2 = nullptr;  // bf16 rows
  std::int64_t gemm2_stride = 0;         // elements from row to row
  const std::int32_t* row_of_pair =
      nullptr;                        // [tokens * top_k] row of gemm2, -1 adds nothing; null: row = pair,
  const std::int32_t* ids = nullptr;  //   and a pair counts when its id is in [first_expert, +local_experts)
  std::int32_t first_expert = 0, local_experts = 0;
  const float* weights = nullptr;  // [tokens * top_k]; null = all ones (weight_on_input)
  std::uint16_t* out = nullptr;    // bf16 [tokens] rows
  std::int64_t out_stride = 0, columns = 0;
  std::int32_t top_k = 0;
};

}  // namespace moe::device
