// How does a row of fp32 values become e4m3 codes and scales? The shared half of quantize and act_quant:
// s = max(amax, 1e-10) / 448 (one division; ue8m0: up to the next power of two), q = e4m3(x * (1 / s)).
// A CTA takes columns [first, last) of one row, eight neighbouring columns a thread and step, so that 16
// lanes hold one 128-column block. `load(column, count, v)` gives the values, `store(column, count, codes)`
// and `store_scale(block, s)` take the result; the granule `row` reads the values twice, the others once.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/row_access.cuh"
#include "device/kernels/scale_rule.hpp"
#include "device/kernels/warp_sums.cuh"
#include "device/planted/planted.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr float kAmaxFloor = 1e-10f;
  inline constexpr int kBlockColumns = 128, kLanesPerBlock = kBlockColumns / kVector;

  __device__ __forceinline__ float scale_of(float amax, bool power_of_two) {
    const float floor =
        planted(Fault::amax_floor_missing, 0.0f,
                planted(Fault::amax_floor_for_zero_only, amax != 0.0f ? 0.0f : kAmaxFloor, kAmaxFloor));
    const float scale = hopper::div_rn(amax > floor ? amax : floor, kE4M3Max);
    return power_of_two
               ? planted(Fault::ue8m0_rounded_down, hopper::as_float(hopper::as_bits(scale) & 0x7F800000u),
                         decode_ue8m0(encode_ue8m0_up(scale)))
               : scale;
  }

  __device__ __forceinline__ float max_magnitude(const float(&v)[kVector]) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kVector; ++i) largest = hopper::max_mag(largest, v[i]);
    return largest;
  }

  __device__ __forceinline__ std::uint8_t code_of(float x) {
    if (planted(Fault::cast_not_saturating) && __builtin_fabsf(x) > 464.0f) return 0x7F;
    return hopper::to_e4m3(x);
  }

  __device__ __forceinline__ std::uint64_t encode8(const float(&v)[kVector], float inverse) {
    std::uint64_t codes = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      codes |= std::uint64_t(code_of(hopper::mul_rn(v[i], inverse))) << (8 * i);
    return codes;
  }

  /// The scale of granule `tensor`, in every thread.
  __device__ __forceinline__ float tensor_scale(const ScaleRule& rule, float* scratch) {
    if (rule.given != nullptr) return *rule.given;
    float amax = 0.0f;
    for (int i = int(threadIdx.x); i < rule.partials; i += int(blockDim.x))
      amax = hopper::max_mag(amax, rule.partial_max[i]);
    return scale_of(cta_max_magnitude(amax, scratch), rule.power_of_two != 0);
  }

  /// Largest magnitude of this thread's share of the columns [first, last).
  template <class Load>
  __device__ __forceinline__ float own_amax(std::int64_t first, std::int64_t last, const Load& load) {
    float amax = 0.0f;
    for (std::int64_t c = first + kVector * std::int64_t(threadIdx.x); c < last;
         c += kVector * std::int64_t(blockDim.x)) {
      float v[kVector];
      load(c, last - c, v);
      amax = hopper::max_mag(amax, max_magnitude(v));
    }
    return amax;
  }

  /// Largest magnitude of the columns [first, last), in every thread.
  template <class Load>
  __device__ __forceinline__ float row_amax(std::int64_t first, std::int64_t last, float* scratch,
                                            const Load& load) {
    return cta_max_magnitude(own_amax(first, last, load), scratch);
  }

  /// Columns [first, last) of a row; for granule `row` that is the whole row. All threads of the CTA must
  /// call.
  template <class Load, class Store, class StoreScale>
  __device__ __forceinline__ void quantize_columns(const ScaleRule& rule, std::int64_t first,
                                                   std::int64_t last, float* scratch, const Load& load,
                                                   const Store& store, const StoreScale& store_scale) {
    const bool blocks = rule.granule == ScaleGranule::block128;
    float scale = 1.0f;
    if (rule.granule == ScaleGranule::tensor) scale = tensor_scale(rule, scratch);
    if (rule.granule == ScaleGranule::row)
      scale = scale_of(row_amax(first, last, scratch, load), rule.power_of_two != 0);
    if (!blocks && first == 0 && threadIdx.x == 0) store_scale(0, scale);
    // uniform in the warp, so that the shuffles of a block find all their lanes
    const std::int64_t lane = threadIdx.x % 32, step = kVector * std::int64_t(blockDim.x);
    for (std::int64_t c = first + kVector * (std::int64_t(threadIdx.x) - lane); c < last; c += step) {
      const std::int64_t column = c + kVector * lane;
      float v[kVector];
      load(column, last - column, v);
      if (blocks) {
        const float own = max_magnitude(v);
        if (!planted(Fault::shuffle_left_by_lanes) || column < last)
          scale = scale_of(lanes_max_magnitude<kLanesPerBlock>(own), rule.power_of_two != 0);
        if (planted(Fault::amax_of_half_a_block))
          scale = scale_of(lanes_max_magnitude<kLanesPerBlock / 2>(own), rule.power_of_two != 0);
        if (lane % kLanesPerBlock == 0 && column < last) store_scale(column / kBlockColumns, scale);
      }
      if (column < last) store(column, last - column, encode8(v, hopper::div_rn(1.0f, scale)));
    }
  }

  /// Writes one row's share of a QuantizedOut.
  __device__ __forceinline__ void write_codes(const QuantizedOut& out, std::int64_t row, std::int64_t column,
                                              std::int64_t count, std::uint64_t codes) {
    store_codes8(out.codes + row * out.stride + column, codes, count);
  }

  __device__ __forceinline__ void write_scale(const QuantizedOut& out, std::int64_t row, std::int64_t block,
                                              float scale) {
    out.scales[planted(Fault::scale_strides_exchanged, block * out.row_stride + row * out.block_stride,
                       block * out.block_stride + row * out.row_stride)] = scale;
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
