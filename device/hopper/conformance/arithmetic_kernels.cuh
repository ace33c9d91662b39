// Contract: arithmetic_params.hpp. A CTA is one warpgroup: it lays its tile out in shared memory (rows of 128
// bytes, 128-byte swizzle; tiles use the four k32 positions of a row in turn), loads c into accumulators,
// issues, stores d.
#pragma once
#include "device/hopper/conformance/arithmetic_ptx.cuh"

namespace moe::hopper::conformance {
MOE_KERNEL_NAMESPACE {
  /// Element i of a thread's accumulators of the 64 x N block at column n0, as an index of the tile's c and
  /// d.
  template <Result D>
  __device__ __forceinline__ int element(int i, int n0) {
    const int warp = int(threadIdx.x) / 32, g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
    const int pair = D == Result::f32 ? i / 2 : i;  // two neighbouring columns of one row
    const int row = 16 * warp + g + 8 * (pair % 2), column = n0 + 8 * (pair / 2) + 2 * t;
    return row * kTileColumns + column + (D == Result::f32 ? i % 2 : 0);
  }
  template <Result D, int R>
  __device__ __forceinline__ void load(typename Register<D>::type(&d)[R], const void* c, int n0) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if constexpr (D == Result::f32) d[i] = static_cast<const float*>(c)[element<D>(i, n0)];
      if constexpr (D == Result::f16) d[i] = static_cast<const std::uint32_t*>(c)[element<D>(i, n0) / 2];
    }
  }
  template <Result D, int R>
  __device__ __forceinline__ void store(const typename Register<D>::type(&d)[R], void* to, int n0) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if constexpr (D == Result::f32) static_cast<float*>(to)[element<D>(i, n0)] = d[i];
      if constexpr (D == Result::f16) static_cast<std::uint32_t*>(to)[element<D>(i, n0) / 2] = d[i];
    }
  }

  /// The thread's fragment of rows 16 * warp .. + 15 of A.
  __device__ __forceinline__ void load_fragment(std::uint32_t(&a)[4], const std::uint8_t* rows) {
    const int warp = int(threadIdx.x) / 32, g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = *reinterpret_cast<const std::uint32_t*>(rows + (16 * warp + g + 8 * (i % 2)) * kTileBytes +
                                                     4 * t + 16 * (i / 2));
  }

  /// Rows of kTileBytes -> rows of 128 bytes at k position `slot`, swizzled.
  __device__ __forceinline__ void lay_out(std::uint8_t * to, const std::uint8_t* from, int rows, int slot) {
    for (int i = int(threadIdx.x); i < 2 * rows; i += kArithmeticThreads) {
      const int row = i / 2, chunk = 2 * slot + i % 2;
      *reinterpret_cast<uint4*>(to + row * 128 + 16 * (chunk ^ row % 8)) =
          *reinterpret_cast<const uint4*>(from + 16 * i);
    }
  }

  template <Operand A, Operand B, Result D, bool from_registers, int N>
  __device__ __forceinline__ void wgmma_columns(const ArithmeticParams& p, const void* c, void* out,
                                                int slot) {
    const std::uint8_t* smem = dynamic_smem();
    const int scale_d = int(p.scale_d[blockIdx.x]);
    const std::uint64_t desc_a = desc_sw128(smem) + 2 * slot;
    std::uint32_t fragment[4];
    load_fragment(fragment, p.a + std::size_t(blockIdx.x) * kTileRows * kTileBytes);
#pragma unroll 1
    for (int n0 = 0; n0 + N <= kTileColumns; n0 += N) {
      const std::uint64_t desc_b = desc_sw128(smem + kTileRows * 128 + n0 * 128) + 2 * slot;
      typename Register<D>::type d[D == Result::f32 ? N / 2 : N / 4];
      load<D>(d, c, n0);
      wgmma_fence(d);
      if constexpr (from_registers) Wgmma<A, B, D, N>::run(d, fragment, desc_b, scale_d);
      if constexpr (!from_registers) Wgmma<A, B, D, N>::run(d, desc_a, desc_b, scale_d);
      wgmma_commit();
      wgmma_wait<0>(d);
      store<D>(d, out, n0);
    }
  }

  template <Operand A, Operand B, Result D, bool from_registers>
  __device__ __forceinline__ void wgmma_tile(const ArithmeticParams& p, const void* c, void* d) {
    std::uint8_t* smem = dynamic_smem();
    const std::size_t tile = blockIdx.x;
    const int slot = int(tile % 4);
    lay_out(smem, p.a + tile * kTileRows * kTileBytes, kTileRows, slot);
    lay_out(smem + kTileRows * 128, p.b + tile * kTileColumns * kTileBytes, kTileColumns, slot);
    fence_proxy_async();
    cta_sync();
    if (p.n == 8) wgmma_columns<A, B, D, from_registers, 8>(p, c, d, slot);
    if (p.n == 16) wgmma_columns<A, B, D, from_registers, 16>(p, c, d, slot);
    if (p.n == 24) wgmma_columns<A, B, D, from_registers, 24>(p, c, d, slot);
    if (p.n == 32) wgmma_columns<A, B, D, from_registers, 32>(p, c, d, slot);
    if (p.n == 48) wgmma_columns<A, B, D, from_registers, 48>(p, c, d, slot);
    if (p.n == 64) wgmma_columns<A, B, D, from_registers, 64>(p, c, d, slot);
    if (p.n == 96) wgmma_columns<A, B, D, from_registers, 96>(p, c, d, slot);
    if (p.n == 128) wgmma_columns<A, B, D, from_registers, 128>(p, c, d, slot);
    if (p.n == 192) wgmma_columns<A, B, D, from_registers, 192>(p, c, d, slot);
    if (p.n == 256) wgmma_columns<A, B, D, from_registers, 256>(p, c, d, slot);
  }

  template <class Mma, Result D>
  __device__ __forceinline__ void mma_tile(const ArithmeticParams& p, const void* c, void* out) {
    const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
    const bool from_zero = p.scale_d[blockIdx.x] == 0;
    const std::uint8_t* columns = p.b + std::size_t(blockIdx.x) * kTileColumns * kTileBytes;
    std::uint32_t a[4], b[2];
    load_fragment(a, p.a + std::size_t(blockIdx.x) * kTileRows * kTileBytes);
#pragma unroll 1
    for (int n0 = 0; n0 < kTileColumns; n0 += 8) {
      for (int i = 0; i < 2; ++i)
        b[i] = *reinterpret_cast<const std::uint32_t*>(columns + (n0 + g) * kTileBytes + 4 * t + 16 * i);
      typename Register<D>::type d[D == Result::f32 ? 4 : 2];
      load<D>(d, c, n0);
      for (auto& x : d) x = from_zero ? 0 : x;
      Mma::run(d, a, b);
      store<D>(d, out, n0);
    }
  }

  /// The kernel of kArithmeticKernels[Index].
  template <int Index>
  __device__ __forceinline__ void run_arithmetic(const ArithmeticParams& p) {
    constexpr ArithmeticKernel k = kArithmeticKernels[Index];
    const std::size_t offset =
        std::size_t(blockIdx.x) * kTileRows * kTileColumns * (k.result == Result::f32 ? 4 : 2);
    const void* c = static_cast<const std::uint8_t*>(p.c) + offset;
    void* d = static_cast<std::uint8_t*>(p.d) + offset;
    if constexpr (is_wgmma(k.instruction))
      wgmma_tile<k.a, k.b, k.result, k.instruction == Instruction::wgmma_registers>(p, c, d);
    if constexpr (k.instruction == Instruction::mma_fp8)
      mma_tile<MmaFp8<k.a, k.b, k.result>, k.result>(p, c, d);
    if constexpr (k.instruction == Instruction::mma_f16) mma_tile<MmaF16<k.result>, k.result>(p, c, d);
  }
}
}  // namespace moe::hopper::conformance
