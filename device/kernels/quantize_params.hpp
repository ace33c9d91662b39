// Parameters of quantize and hidden_amax (quantize.cuh).
#pragma once
#include <cstdint>

#include "device/kernels/scale_rule.hpp"

namespace moe::device {

/// The layer's input: bf16 rows, each multiplied by its routing weight and rounded to bf16 where the layer
/// says so.
struct HiddenRows {
  const std::uint16_t* values = nullptr;  // bf16 [tokens] rows of `columns`
  std::int64_t stride = 0;                // elements from row to row
  std::int64_t tokens = 0, columns = 0;
  const float* weight = nullptr;  // [tokens] (top-1), or null
};

struct QuantizeParams {
  HiddenRows hidden;
  ScaleRule rule;
  const std::int32_t* row_of_pair =
      nullptr;  // [tokens * top_k] sorted row or -1; null: no sorted rows are written
  std::int32_t top_k = 0;
  std::int32_t chunk = 0;  // columns a CTA takes, a multiple of 128; all of them for granule `row`
  QuantizedOut sorted,
      canonical;  // rows are sorted rows | tokens; null codes: sorted writes scales alone, canonical nothing
};

struct HiddenAmaxParams {
  HiddenRows hidden;
  float* partial_max = nullptr;  // out [gridDim.x]
};

}  // namespace moe::device
