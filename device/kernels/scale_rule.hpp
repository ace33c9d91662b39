// Which numbers share a scale, and where does the scale come from? Part of the parameters of quantize and
// act_quant.
#pragma once
#include <cstdint>

namespace moe::device {

enum class ScaleGranule : std::int32_t {
  tensor,    // one scale for all rows: given, or from partial maxima that a kernel in front wrote
  row,       // one a row
  block128,  // one a row and 128 columns
};

struct ScaleRule {
  ScaleGranule granule = ScaleGranule::block128;
  std::int32_t power_of_two = 0;  // ue8m0: the scale is rounded up to a power of two
  const float* given = nullptr;   // tensor: the scale itself (static), or null
  const float* partial_max =
      nullptr;  // tensor: largest magnitudes whose maximum is the amax (dynamic), or null
  std::int32_t partials = 0;
};

/// Where codes and scales go. A null `codes` writes nothing. block128 scales lie at scales[block * ld + row],
/// which is MN-major with ld = padded rows; canonical [rows, K/128] has block stride 1 and row stride K/128.
struct QuantizedOut {
  std::uint8_t* codes = nullptr;
  std::int64_t stride = 0;  // bytes from row to row
  float* scales = nullptr;
  std::int64_t block_stride = 0, row_stride = 0;
};

}  // namespace moe::device
