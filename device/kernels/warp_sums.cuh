// What does a whole warp or CTA sum up to? Integer sums and order-free maxima by shuffles and one shared
// array.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr int kMaxWarps = 32;

  __device__ __forceinline__ std::uint32_t warp_sum(std::uint32_t value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += hopper::shfl_xor(value, step);
    return value;
  }

  /// Largest magnitude over groups of `kLanes` neighbouring lanes.
  template <int kLanes>
  __device__ __forceinline__ float lanes_max_magnitude(float value) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2)
      value = hopper::max_mag(value, hopper::shfl_xor(value, step));
    return value;
  }

  /// Sum over the CTA, in every thread. `scratch` holds kMaxWarps words of shared memory; all threads must
  /// call.
  __device__ __forceinline__ std::uint32_t cta_sum(std::uint32_t value, std::uint32_t * scratch) {
    const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = warp_sum(value);
    if (warps == 1) return value;
    hopper::cta_sync();  // the scratch of an earlier call has been read
    if (threadIdx.x % 32 == 0) scratch[warp] = value;
    if (!planted(Fault::sum_read_before_barrier)) hopper::cta_sync();
    std::uint32_t total = 0;
    for (unsigned w = 0; w < warps; ++w) total += scratch[w];
    return total;
  }

  /// Largest magnitude over the CTA, in every thread; same rules as cta_sum.
  __device__ __forceinline__ float cta_max_magnitude(float value, float* scratch) {
    const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = lanes_max_magnitude<32>(value);
    if (warps == 1) return value;
    hopper::cta_sync();
    if (threadIdx.x % 32 == 0) scratch[warp] = value;
    if (!planted(Fault::amax_read_before_barrier)) hopper::cta_sync();
    float largest = 0.0f;
    for (unsigned w = 0; w < warps; ++w) largest = hopper::max_mag(largest, scratch[w]);
    return largest;
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
