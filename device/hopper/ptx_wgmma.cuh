// How does a warpgroup multiply e4m3 tiles in shared memory? PTX bodies of wgmma ("Asynchronous Warpgroup
// Level Matrix Instructions"): D[64][N] (+)= A[64][32] * B[N][32]^T, fp32 accumulators in registers, operands
// through descriptors.
//
// A thread's accumulators: row = 16*(t/32) + (t%32)/4 + 8*((i>>1)&1), column = 8*(i>>2) + 2*(t%4) + (i&1), t
// = thread of the warpgroup. Order of use: wgmma_fence(d), wgmma_e4m3 ..., wgmma_commit(), wgmma_wait<W>(d),
// then read d.
#pragma once
#include <cstdint>

#include "device/hopper/ptx_sync.cuh"
#include "device/hopper/tensor_map.hpp"
#include "device/hopper/wgmma_operands.cuh"

namespace moe::hopper {

/// Descriptor of a K-major operand tile: rows of 128 bytes, 128-byte swizzle, 8-row groups 1024 bytes apart,
/// tile aligned to 1024 bytes ("Matrix Descriptor"). Adding 2 moves 32 bytes along K.
MOE_PTX std::uint64_t desc_sw128(const void* p) {
  const std::uint64_t start = (shared_address(p) & 0x3FFFF) >> 4;
  return start | (std::uint64_t(1) << 16) | (std::uint64_t(1024 >> 4) << 32) | (std::uint64_t(1) << 62);
}

/// The same for any swizzle: rows of row_bytes(S) bytes, 8-row groups 8 rows apart, tile aligned to 8 rows. Without
/// a swizzle a row is 16 bytes and `column_bytes` is the distance of the columns of 16 bytes along K.
template <Swizzle S>
MOE_PTX std::uint64_t descriptor(const void* p, std::uint32_t column_bytes = 16) {
  constexpr std::uint64_t kGroup = 8 * row_bytes(S) >> 4;
  return (shared_address(p) & 0x3FFFF) >> 4 | std::uint64_t(column_bytes >> 4) << 16 | kGroup << 32 |
         std::uint64_t(S) << 62;
}

namespace detail {

template <int N>
struct Wgmma;

// clang-format off
#define MOE_WGMMA(N, R, A, B, SCALE_D)                                                                    \
  template <>                                                                                             \
  struct Wgmma<N> {                                                                                       \
    static MOE_PTX void run(float (&d)[R], std::uint64_t a, std::uint64_t b, int scale_d) {               \
      asm volatile(                                                                                       \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #SCALE_D ", 0;\n"                                          \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 "                                     \
          "{" MOE_NAMES_##R "}, %" #A ", %" #B ", p, 1, 1;\n}\n"                                          \
          : MOE_REGS_##R(MOE_INOUT_F32) : "l"(a), "l"(b), "r"(scale_d));                                \
    }                                                                                                     \
  };
MOE_WGMMA(8, 4, 4, 5, 6)
MOE_WGMMA(16, 8, 8, 9, 10)
MOE_WGMMA(24, 12, 12, 13, 14)
MOE_WGMMA(32, 16, 16, 17, 18)
MOE_WGMMA(48, 24, 24, 25, 26)
MOE_WGMMA(64, 32, 32, 33, 34)
MOE_WGMMA(96, 48, 48, 49, 50)
MOE_WGMMA(128, 64, 64, 65, 66)
MOE_WGMMA(192, 96, 96, 97, 98)
MOE_WGMMA(256, 128, 128, 129, 130)
#undef MOE_WGMMA
// clang-format on

}  // namespace detail

/// Orders earlier accesses of the accumulators before the next wgmma. All threads of the warpgroup.
template <int R>
MOE_PTX void wgmma_fence(float (&d)[R]) {
#pragma unroll
  for (int i = 0; i < R; ++i)
    asm volatile("" : "+f"(d[i])::"memory");  // the compiler may not move them across
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// D (+)= A * B for one k32 step; scale_d = 0 starts from zero. N in {8, 16, 24, 32, 48, 64, 96, 128, 192,
/// 256}.
template <int N>
MOE_PTX void wgmma_e4m3(float (&d)[N / 2], std::uint64_t desc_a, std::uint64_t desc_b, int scale_d) {
  detail::Wgmma<N>::run(d, desc_a, desc_b, scale_d);
}
MOE_PTX void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most W committed groups are in flight; d may be read afterwards if its group is not among
/// them.
template <int W, int R>
MOE_PTX void wgmma_wait(float (&d)[R]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(W) : "memory");
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace moe::hopper
