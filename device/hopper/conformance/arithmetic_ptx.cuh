// How is each recorded instruction issued? PTX alone: wgmma on FP8 in every pairing, with f32 and f16
// results, A from shared memory or registers ("Asynchronous Warpgroup Level Matrix Instructions"), and
// mma.sync on FP8 and f16 ("Warp Level Matrix Instructions: mma"). An A fragment is the same for all: with g
// = lane / 4 and t = lane % 4, register i holds bytes 4t + 16 (i / 2) .. + 3 of row g + 8 (i % 2) of the
// warp's 16 rows; a B fragment of mma register i holds bytes 4t + 16 i .. + 3 of column g. Results in f16
// come in pairs of columns.
#pragma once
#include "device/hopper/conformance/arithmetic_params.hpp"
#include "device/hopper/hopper.hpp"

namespace moe::hopper::conformance {

using hopper::wgmma_fence;
using hopper::wgmma_wait;

/// The same as for f32 accumulators (ptx_wgmma.cuh), for pairs of f16.
template <int R>
MOE_PTX void wgmma_fence(std::uint32_t (&d)[R]) {
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+r"(d[i])::"memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int W, int R>
MOE_PTX void wgmma_wait(std::uint32_t (&d)[R]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(W) : "memory");
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

template <Result D>
struct Register {
  using type = float;
};
template <>
struct Register<Result::f16> {
  using type = std::uint32_t;  // two columns
};

template <Operand A, Operand B, Result D, int N>
struct Wgmma;
template <Operand A, Operand B, Result D>
struct MmaFp8;
template <Result D>
struct MmaF16;

// clang-format off
// I0 .. I5 = R .. R + 5: the operands that follow R accumulators.
#define MOE_RECORD_WGMMA(N, R, A, B, D, INOUT, I0, I1, I2, I3, I4, I5)                                       \
  template <>                                                                                              \
  struct Wgmma<Operand::A, Operand::B, Result::D, N> {                                                     \
    using T = Register<Result::D>::type;                                                                   \
    static MOE_PTX void run(T (&d)[R], std::uint64_t a, std::uint64_t b, int scale_d) {                    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #I2 ", 0;\n"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32." #D "." #A "." #B                          \
                   " {" MOE_NAMES_##R "}, %" #I0 ", %" #I1 ", p, 1, 1;\n}\n"                               \
                   : MOE_REGS_##R(INOUT) : "l"(a), "l"(b), "r"(scale_d));                                  \
    }                                                                                                      \
    static MOE_PTX void run(T (&d)[R], const std::uint32_t (&a)[4], std::uint64_t b, int scale_d) {        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #I5 ", 0;\n"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32." #D "." #A "." #B                          \
                   " {" MOE_NAMES_##R "}, {%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", p, 1, 1;\n}\n" \
                   : MOE_REGS_##R(INOUT)                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d));                    \
    }                                                                                                      \
  };
#define MOE_RECORD_PAIRINGS(...)          \
  MOE_RECORD_TYPES(e4m3, e4m3, __VA_ARGS__) \
  MOE_RECORD_TYPES(e4m3, e5m2, __VA_ARGS__) \
  MOE_RECORD_TYPES(e5m2, e4m3, __VA_ARGS__) \
  MOE_RECORD_TYPES(e5m2, e5m2, __VA_ARGS__)
#define MOE_RECORD_TYPES(A, B, N, R, D, INOUT, ...) MOE_RECORD_WGMMA(N, R, A, B, D, INOUT, __VA_ARGS__)
MOE_RECORD_PAIRINGS(8, 4, f32, MOE_INOUT_F32, 4, 5, 6, 7, 8, 9)
MOE_RECORD_PAIRINGS(16, 8, f32, MOE_INOUT_F32, 8, 9, 10, 11, 12, 13)
MOE_RECORD_PAIRINGS(24, 12, f32, MOE_INOUT_F32, 12, 13, 14, 15, 16, 17)
MOE_RECORD_PAIRINGS(32, 16, f32, MOE_INOUT_F32, 16, 17, 18, 19, 20, 21)
MOE_RECORD_PAIRINGS(48, 24, f32, MOE_INOUT_F32, 24, 25, 26, 27, 28, 29)
MOE_RECORD_PAIRINGS(64, 32, f32, MOE_INOUT_F32, 32, 33, 34, 35, 36, 37)
MOE_RECORD_PAIRINGS(96, 48, f32, MOE_INOUT_F32, 48, 49, 50, 51, 52, 53)
MOE_RECORD_PAIRINGS(128, 64, f32, MOE_INOUT_F32, 64, 65, 66, 67, 68, 69)
MOE_RECORD_PAIRINGS(192, 96, f32, MOE_INOUT_F32, 96, 97, 98, 99, 100, 101)
MOE_RECORD_PAIRINGS(256, 128, f32, MOE_INOUT_F32, 128, 129, 130, 131, 132, 133)
MOE_RECORD_PAIRINGS(8, 2, f16, MOE_INOUT_B32, 2, 3, 4, 5, 6, 7)
MOE_RECORD_PAIRINGS(16, 4, f16, MOE_INOUT_B32, 4, 5, 6, 7, 8, 9)
MOE_RECORD_PAIRINGS(24, 6, f16, MOE_INOUT_B32, 6, 7, 8, 9, 10, 11)
MOE_RECORD_PAIRINGS(32, 8, f16, MOE_INOUT_B32, 8, 9, 10, 11, 12, 13)
MOE_RECORD_PAIRINGS(48, 12, f16, MOE_INOUT_B32, 12, 13, 14, 15, 16, 17)
MOE_RECORD_PAIRINGS(64, 16, f16, MOE_INOUT_B32, 16, 17, 18, 19, 20, 21)
MOE_RECORD_PAIRINGS(96, 24, f16, MOE_INOUT_B32, 24, 25, 26, 27, 28, 29)
MOE_RECORD_PAIRINGS(128, 32, f16, MOE_INOUT_B32, 32, 33, 34, 35, 36, 37)
MOE_RECORD_PAIRINGS(192, 48, f16, MOE_INOUT_B32, 48, 49, 50, 51, 52, 53)
MOE_RECORD_PAIRINGS(256, 64, f16, MOE_INOUT_B32, 64, 65, 66, 67, 68, 69)

/// The two shapes of accumulators that a warp's 16 x 8 block has.
#define MOE_MMA_F32(SHAPE, A, B)                                                                                   \
  static MOE_PTX void run(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {               \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." A "." B ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "  \
                 "{%0,%1,%2,%3};"                                                                                  \
                 : MOE_REGS_4(MOE_INOUT_F32)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
  }
#define MOE_MMA_F16(SHAPE, A, B)                                                                                   \
  static MOE_PTX void run(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {       \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f16." A "." B ".f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};" \
                 : MOE_REGS_2(MOE_INOUT_B32)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
  }
#define MOE_RECORD_MMA(A, B)                                                                               \
  template <> struct MmaFp8<Operand::A, Operand::B, Result::f32> { MOE_MMA_F32("m16n8k32", #A, #B) };      \
  template <> struct MmaFp8<Operand::A, Operand::B, Result::f16> { MOE_MMA_F16("m16n8k32", #A, #B) };
MOE_RECORD_MMA(e4m3, e4m3)
MOE_RECORD_MMA(e4m3, e5m2)
MOE_RECORD_MMA(e5m2, e4m3)
MOE_RECORD_MMA(e5m2, e5m2)
template <> struct MmaF16<Result::f32> { MOE_MMA_F32("m16n8k16", "f16", "f16") };
template <> struct MmaF16<Result::f16> { MOE_MMA_F16("m16n8k16", "f16", "f16") };
#undef MOE_RECORD_WGMMA
#undef MOE_RECORD_PAIRINGS
#undef MOE_RECORD_TYPES
#undef MOE_MMA_F32
#undef MOE_MMA_F16
#undef MOE_RECORD_MMA
// clang-format on

}  // namespace moe::hopper::conformance
