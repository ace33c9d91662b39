// Contract: brings the rows of a grouped_gemm contract into the expert-sorted order that the GEMM reads:
// codes to sorted.codes, scales to sorted.scales; rows marked kZeroedRow get zeros in the output. grid =
// source rows. Plan: a CTA a source row: find its sorted row, copy 16 bytes an access, one thread a scale.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/gather_rows_params.hpp"
#include "device/kernels/row_access.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ void copy_bytes(std::uint8_t * to, const std::uint8_t* from,
                                             std::int64_t bytes) {
    std::int64_t done = 0;
    if (aligned_to(to, 16) && aligned_to(from, 16)) {
      for (std::int64_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
      }
      done = bytes / 16 * 16;
    }
    for (std::int64_t i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
  }

  struct GatherRows {
    using Params = GatherRowsParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::int64_t source = blockIdx.x, row = p.row_of_source[source], from = source / p.row_divisor;
      if (row >= 0) {
        copy_bytes(p.sorted.codes + row * p.sorted.stride, p.codes + from * p.stride, p.columns);
        for (std::int64_t b = threadIdx.x; b < p.blocks; b += blockDim.x) {
          p.sorted.scales[b * p.sorted.block_stride + row * p.sorted.row_stride] =
              p.scales[b * p.block_stride + from * p.row_stride];
        }
      } else if (p.expert_of_row != nullptr && p.expert_of_row[source] == kZeroedRow) {
        if (planted(Fault::zeroed_rows_not_zeroed)) return;
        std::uint16_t* out = p.out + source * p.out_columns;
        for (std::int64_t c = threadIdx.x; c < p.out_columns; c += blockDim.x) out[c] = 0;
      }
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
