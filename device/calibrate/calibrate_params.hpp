// What does a micro-kernel of the calibration take? One struct for all of them; each says which fields it
// reads.
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"
#include "device/kernels/grouped_gemm_params.hpp"

namespace moe::device {

/// What a thread's operands hold, where that matters (the clock under load).
enum class CalibrateData : std::int32_t { zeros, normal, random };
/// How many scales a thread reads from shared memory in one promotion.
enum class CalibrateScales : std::int32_t { none, rows, columns };

struct CalibrateParams {
  hopper::TensorMap map;     // of a matrix of `data`, boxes of box_rows x 128 bytes
  GroupedGemmParams gemm;    // structure kernels: the lists of a launch
  const std::uint8_t* data;  // region that is read
  std::uint8_t* target;      // region that is written
  std::uint64_t* out;        // [grid][4]: cycles, nanoseconds, a second pair where a kernel says so
  std::uint32_t* words;      // counters, zero at the start
  std::uint64_t bytes;       // of the region
  std::uint64_t cycles;      // how long a busy kernel lasts
  std::int32_t iterations, n, stages, chunk, loads, box_rows, columns, share, mode;
  std::int32_t skew;  // most cycles by which a warp of a loop on one SM starts late; 0: all at once
};

}  // namespace moe::device
