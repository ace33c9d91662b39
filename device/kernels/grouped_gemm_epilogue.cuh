// How do accumulators become bf16 rows in global memory? A thread of a warp's 16 x N fragment holds rows
// lane/4 and lane/4 + 8 ("along M") and columns 8*(i>>2) + 2*(lane%4) + (i&1) ("along N"). A group of four
// warps scales its values, writes them to its patch of shared memory as [tokens][columns], and copies whole
// rows out, 128 or 256 bytes a token.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/grouped_gemm_config.hpp"
#include "device/kernels/grouped_gemm_params.hpp"
#include "device/planted/gemm_faults.cuh"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ int lane_id() { return int(threadIdx.x) % 32; }

  /// A vector along M of a fragment: element r is p[r * stride]; elements from `count` on are 0.
  struct AlongM {
    float value[2] = {};
    __device__ __forceinline__ void load(const float* p, int stride, int count) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = lane_id() / 4 + 8 * half;
        value[half] =
            r < count || planted(Fault::column_scales_read_past_end) ? p[std::int64_t(r) * stride] : 0.0f;
      }
    }
  };

  /// A vector along N of a fragment: lane i holds elements i, i + 32, ...
  template <int N>
  struct AlongN {
    float value[(N + 31) / 32] = {};
    __device__ __forceinline__ void load(const float* p, int stride, int count) {
#pragma unroll
      for (int v = 0; v < (N + 31) / 32; ++v) {
        const int n = lane_id() + 32 * v;
        value[v] =
            n < count || planted(Fault::column_scales_read_past_end) ? p[std::int64_t(n) * stride] : 0.0f;
      }
    }
    /// The element of accumulators 4*q + j and 4*q + 2 + j. All lanes call it together.
    __device__ __forceinline__ float at(int q, int j) const {
      const int n = 8 * q + 2 * (lane_id() % 4) + j;  // n / 32 = q / 4 in every lane
      return hopper::as_float(hopper::shfl_idx(hopper::as_bits(value[q / 4]), n % 32));
    }
  };

  /// The factors and the bias of a fragment of tokens x weight columns, which are loaded when its tile
  /// starts.
  template <GemmConfig C, int N>
  struct Finish {
    AlongM m_scale, m_bias;
    AlongN<N> n_scale, n_bias;

    /// `row`, `rows`: first sorted row of the fragment and how many exist from there; `column`: its first
    /// weight column.
    __device__ __forceinline__ void load(const GroupedGemmParams& p, int expert, int row, int rows,
                                         int column) {
      const int columns = p.n - column;
      if constexpr (!C.block_scales()) {
        const float* a = p.a_scale + std::int64_t(row) * p.a_scale_ld;
        const float* w =
            p.w_scale + std::int64_t(expert) * p.w_scale_expert + std::int64_t(column) * p.w_scale_column;
        if constexpr (C.swap_ab()) {
          m_scale.load(w, p.w_scale_column, columns);
          n_scale.load(a, p.a_scale_ld, rows);
        } else {
          m_scale.load(a, p.a_scale_ld, rows);
          n_scale.load(w, p.w_scale_column, columns);
        }
      }
      if (p.bias == nullptr) return;
      const float* bias = p.bias + std::int64_t(expert) * p.n + column;
      if constexpr (C.swap_ab())
        m_bias.load(bias, 1, columns);
      else
        n_bias.load(bias, 1, columns);
    }

    /// flat: y = (acc * a_scale) * w_scale; then y + bias. Each operation rounds to fp32.
    template <int R>
    __device__ __forceinline__ void apply(float (&acc)[R], bool biased) const {
      if (planted(Fault::bias_before_scales) && biased) add_bias(acc);
      if constexpr (!C.block_scales()) scale(acc);
      if (biased && !planted(Fault::bias_before_scales)) add_bias(acc);
    }

   private:
    template <int R>
    __device__ __forceinline__ void scale(float (&acc)[R]) const {
#pragma unroll
      for (int i = 0; i < R / 2; ++i) {
        const int q = i / 2, j = i % 2;
        const float n = n_scale.at(q, j);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& x = acc[4 * q + 2 * half + j];
          const float m = m_scale.value[half];
          x = C.swap_ab() ? hopper::mul_rn(hopper::mul_rn(x, n), m) : hopper::mul_rn(hopper::mul_rn(x, m), n);
        }
      }
    }
    template <int R>
    __device__ __forceinline__ void add_bias(float (&acc)[R]) const {
#pragma unroll
      for (int i = 0; i < R / 2; ++i) {
        const int q = i / 2, j = i % 2;
        float n = 0.0f;
        if constexpr (!C.swap_ab()) n = n_bias.at(q, j);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& x = acc[4 * q + 2 * half + j];
          x = hopper::add_rn(x, C.swap_ab() ? m_bias.value[half] : n);
        }
      }
    }
  };

  /// Accumulators First .. First + Count - 1 of a fragment as bf16 into a patch, `at` being its first row and
  /// column. Transposed: patch rows lie along N (swap_ab), else along M.
  template <bool Transposed, int First, int Count, int R>
  __device__ __forceinline__ void put_fragment(std::uint8_t * at, int pitch, const float(&acc)[R]) {
    const int m = lane_id() / 4, n = 2 * (lane_id() % 4);
#pragma unroll
    for (int i = 0; i < Count; i += 2) {
      const std::uint32_t pair =
          planted(Fault::bf16_truncated,
                  hopper::as_bits(acc[First + i]) >> 16 | (hopper::as_bits(acc[First + i + 1]) & 0xFFFF0000u),
                  hopper::pack_bf16(acc[First + i], acc[First + i + 1]));
      const int row = m + 8 * (i / 2 % 2), column = n + 8 * (i / 4);
      if constexpr (Transposed) {
        auto* to = reinterpret_cast<std::uint16_t*>(at + column * pitch) + row;
        *to = std::uint16_t(pair);
        to[pitch / 2] = std::uint16_t(pair >> 16);
      } else {
        *reinterpret_cast<std::uint32_t*>(at + row * pitch + 2 * column) = pair;
      }
    }
  }

  /// Where a warp's share of a patch goes: row w*Rows/4 + i of the patch for lane i modulo Rows/4; -1 =
  /// nowhere.
  template <int Rows>
  __device__ __forceinline__ int patch_destination(const GroupedGemmParams& p, int row, int rows) {
    const int i = int(threadIdx.x) / 32 % 4 * (Rows / 4) + lane_id() % (Rows / 4);
    if (i >= rows + planted(Fault::row_tail_stored, 8, 0)) return -1;
    return p.out_row != nullptr ? p.out_row[row + i] : row + i;
  }

  /// Are all rows of the output made of whole, aligned 16-byte pieces?
  __device__ __forceinline__ bool wide_rows(const GroupedGemmParams& p) {
    if (planted(Fault::rows_and_columns_exchanged)) return false;
    return (reinterpret_cast<std::uint64_t>(p.out) % 16 | std::uint64_t((p.n | p.ld_out) % 8)) == 0;
  }

  /// First element of a row of `out`.
  __device__ __forceinline__ std::uint16_t* out_row(const GroupedGemmParams& p, int row) {
    if (planted(Fault::output_stride_ignored)) return p.out + std::int64_t(row) * p.n;
    return p.out + std::int64_t(row) * p.ld_out;
  }

  /// Copies a patch to output columns column .. column + Columns - 1; `destination` is
  /// patch_destination<Rows>. The group has waited for its put_fragments. All 128 threads of the group call
  /// it.
  template <int Rows, int Columns>
  __device__ __forceinline__ void store_patch(const GroupedGemmParams& p, const std::uint8_t* patch,
                                              int pitch, int destination, int column, bool wide) {
    constexpr int kShare = Rows / 4, kLanes = Columns / 8,
                  kPass = 32 / kLanes;  // rows a warp; lanes and rows a pass
    const int first = int(threadIdx.x) / 32 % 4 * kShare;
    if (wide) {
      if (planted(Fault::bulk_store_without_proxy_fence) || planted(Fault::bulk_store_not_awaited) ||
          planted(Fault::bulk_store_not_committed))
        return store_patch_by_bulk<Rows, Columns>(p, patch, pitch, destination, column);
      const int r0 = lane_id() / kLanes, c = lane_id() % kLanes * 8;
#pragma unroll
      for (int pass = 0; pass < kShare; pass += kPass) {
        const int r = pass + r0;
        const int to = int(hopper::shfl_idx(std::uint32_t(destination), r % kShare));
        if (r < kShare && to >= 0 && (column + c < p.n || planted(Fault::column_tail_stored)))
          *reinterpret_cast<uint4*>(out_row(p, to) + column + c) =
              *reinterpret_cast<const uint4*>(patch + (first + r) * pitch + 2 * c);
      }
      return;
    }
    for (int r = 0; r < kShare; ++r) {
      const int to = int(hopper::shfl_idx(std::uint32_t(destination), r));
      for (int c = lane_id(); c < Columns; c += 32)
        if (to >= 0 && (column + c < p.n || planted(Fault::column_tail_stored)))
          *planted(Fault::rows_and_columns_exchanged, p.out + std::int64_t(column + c) * p.ld_out + to,
                   out_row(p, to) + column + c) =
              *reinterpret_cast<const std::uint16_t*>(patch + (first + r) * pitch + 2 * c);
    }
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
