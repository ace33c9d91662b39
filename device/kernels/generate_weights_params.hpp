// Parameters of generate_weights (generate_weights.cuh).
#pragma once
#include <cstdint>

namespace moe::device {

struct GenerateWeightsParams {
  std::uint8_t* codes = nullptr;         // e4m3 rows
  std::int64_t stride = 0, columns = 0;  // bytes from row to row; codes that a row has
  std::int64_t rows = 0;
  std::uint64_t seed = 0, first = 0;  // `first`: the place of the first code in the whole model's tensor
  std::uint32_t tensor = 0;           // TensorNumber
  std::int32_t data = 0;              // kNormalData, ...
};

}  // namespace moe::device
