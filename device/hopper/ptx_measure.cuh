// What does a measuring kernel need beyond a working one? PTX bodies of the clocks ("Special Registers") and
// of wgmma with A in registers. Only device/calibrate includes it: there is no such body for the emulated SM.
#pragma once
#include <cstdint>

#include "device/hopper/hopper.hpp"

namespace moe::hopper {

/// Cycles of this SM.
MOE_PTX std::uint64_t sm_cycles() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}
/// Nanoseconds, the same on all SMs; steps of about 32 ns, or 1 us on some drivers.
MOE_PTX std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
namespace detail {

template <int N>
struct WgmmaRegistersA;

// clang-format off
#define MOE_WGMMA_RS(N, R, A0, A1, A2, A3, B, SCALE_D)                                                    \
  template <>                                                                                             \
  struct WgmmaRegistersA<N> {                                                                             \
    static MOE_PTX void run(float (&d)[R], const std::uint32_t (&a)[4], std::uint64_t b, int scale_d) {   \
      asm volatile(                                                                                       \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #SCALE_D ", 0;\n"                                          \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 "                                     \
          "{" MOE_NAMES_##R "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1;\n}\n"         \
          : MOE_REGS_##R(MOE_INOUT_F32)                                                                   \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d));                            \
    }                                                                                                     \
  };
MOE_WGMMA_RS(8, 4, 4, 5, 6, 7, 8, 9)
MOE_WGMMA_RS(16, 8, 8, 9, 10, 11, 12, 13)
MOE_WGMMA_RS(24, 12, 12, 13, 14, 15, 16, 17)
MOE_WGMMA_RS(32, 16, 16, 17, 18, 19, 20, 21)
MOE_WGMMA_RS(48, 24, 24, 25, 26, 27, 28, 29)
MOE_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, 37)
MOE_WGMMA_RS(96, 48, 48, 49, 50, 51, 52, 53)
MOE_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, 69)
MOE_WGMMA_RS(192, 96, 96, 97, 98, 99, 100, 101)
MOE_WGMMA_RS(256, 128, 128, 129, 130, 131, 132, 133)
#undef MOE_WGMMA_RS
// clang-format on

}  // namespace detail

/// D += A * B for one k32 step, A in registers.
template <int N>
MOE_PTX void wgmma_e4m3_rs(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t desc_b,
                           int scale_d) {
  detail::WgmmaRegistersA<N>::run(d, a, desc_b, scale_d);
}

}  // namespace moe::hopper
