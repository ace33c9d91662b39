// Contract: bf16 rows -> e4m3 codes and scales (quantize_row.cuh); each token's row is written to every
// sorted row of its local pairs, and to its own row of the canonical tensors where they are asked for. grid =
// tokens * chunks, kMaxWarps words of dynamic shared memory. hidden_amax: partial_max[c] = largest magnitude
// of the rows CTA c read. Plan: a CTA takes `chunk` columns of one token; a value is read once (twice for one
// scale a row), its eight codes stay in a register pair and go out once a slot. weight_on_input multiplies
// and rounds to bf16 first. The maximum of a whole tensor takes two steps: partial maxima here, their maximum
// in every CTA of quantize; a maximum does not depend on the order, and nothing has to be cleared. `hidden`
// is older than the kernel in front: a thread's first values are on their way while it waits.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/quantize_params.hpp"
#include "device/kernels/quantize_row.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ void load_hidden(const HiddenRows& hidden, std::int64_t token,
                                              std::int64_t column, std::int64_t count, float(&v)[kVector]) {
    load_bf16x8(
        v,
        hidden.values + token * planted(Fault::input_stride_ignored, hidden.columns, hidden.stride) + column,
        count);
    if (hidden.weight == nullptr) return;
    const float weight = hidden.weight[token];
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      v[i] = hopper::as_float(hopper::pack_bf16(0.0f, hopper::mul_rn(v[i], weight)) & 0xFFFF0000u);
  }

  struct HiddenAmax {
    using Params = HiddenAmaxParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<float*>(hopper::dynamic_smem());
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      float amax = 0.0f;
      for (std::int64_t token = blockIdx.x; token < p.hidden.tokens; token += gridDim.x) {
        amax = hopper::max_mag(
            amax,
            own_amax(0, p.hidden.columns, [&](std::int64_t column, std::int64_t count, float(&v)[kVector]) {
              load_hidden(p.hidden, token, column, count, v);
            }));
      }
      amax = cta_max_magnitude(amax, scratch);
      if (threadIdx.x == 0) p.partial_max[blockIdx.x] = amax;
    }
  };

  struct Quantize {
    using Params = QuantizeParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<float*>(hopper::dynamic_smem());
      const std::int64_t chunks = (p.hidden.columns + p.chunk - 1) / p.chunk;
      const std::int64_t token = blockIdx.x / chunks, first = (blockIdx.x % chunks) * p.chunk;
      const std::int64_t last = first + p.chunk < p.hidden.columns ? first + p.chunk : p.hidden.columns;
      const std::int32_t* rows = p.row_of_pair == nullptr ? nullptr : p.row_of_pair + token * p.top_k;
      const bool per_row = p.rule.granule != ScaleGranule::tensor;

      const std::int64_t own = first + kVector * std::int64_t(threadIdx.x);
      float early[kVector];
      load_hidden(p.hidden, token, own, last - own, early);
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const auto load = [&](std::int64_t column, std::int64_t count, float(&v)[kVector]) {
        if (column != own) return load_hidden(p.hidden, token, column, count, v);
#pragma unroll
        for (int i = 0; i < kVector; ++i) v[i] = early[i];
      };
      const auto store = [&](std::int64_t column, std::int64_t count, std::uint64_t codes) {
        if (p.canonical.codes != nullptr) write_codes(p.canonical, token, column, count, codes);
        if (rows == nullptr || p.sorted.codes == nullptr) return;
        for (int slot = 0; slot < p.top_k; ++slot) {
          if (rows[slot] >= 0) write_codes(p.sorted, rows[slot], column, count, codes);
        }
      };
      const auto store_scale = [&](std::int64_t block, float scale) {
        if (planted(Fault::every_cta_writes_the_scale) && !per_row) write_scale(p.canonical, 0, 0, scale);
        if (!per_row && token != 0) return;  // one scale for all: the first CTA writes it
        if (p.canonical.codes != nullptr) write_scale(p.canonical, per_row ? token : 0, block, scale);
        if (rows == nullptr) return;
        if (!per_row) write_scale(p.sorted, 0, 0, scale);
        for (int slot = 0; per_row && slot < p.top_k; ++slot) {
          if (rows[slot] >= 0)
            write_scale(p.sorted, planted(Fault::scale_row_is_token, token, std::int64_t(rows[slot])), block,
                        scale);
        }
      };
      quantize_columns(p.rule, first, last, scratch, load, store, store_scale);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
