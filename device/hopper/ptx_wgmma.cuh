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

namespace moe::hopper {

/// Descriptor of a K-major operand tile: rows of 128 bytes, 128-byte swizzle, 8-row groups 1024 bytes apart,
/// tile aligned to 1024 bytes ("Matrix Descriptor"). Adding 2 moves 32 bytes along K.
MOE_PTX std::uint64_t desc_sw128(const void* p) {
  const std::uint64_t start = (shared_address(p) & 0x3FFFF) >> 4;
  return start | (std::uint64_t(1) << 16) | (std::uint64_t(1024 >> 4) << 32) | (std::uint64_t(1) << 62);
}

namespace detail {

template <int N>
struct Wgmma;

// The operand lists of an instruction with R accumulators are prefixes of one another, so each is written
// once.
// clang-format off
#define MOE_NAMES_4 "%0, %1, %2, %3"
#define MOE_REGS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define MOE_NAMES_8 MOE_NAMES_4 ", %4, %5, %6, %7"
#define MOE_REGS_8 MOE_REGS_4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define MOE_NAMES_12 MOE_NAMES_8 ", %8, %9, %10, %11"
#define MOE_REGS_12 MOE_REGS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define MOE_NAMES_16 MOE_NAMES_12 ", %12, %13, %14, %15"
#define MOE_REGS_16 MOE_REGS_12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define MOE_NAMES_24 MOE_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MOE_REGS_24 MOE_REGS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define MOE_NAMES_32 MOE_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MOE_REGS_32 MOE_REGS_24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define MOE_NAMES_48 MOE_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MOE_REGS_48 MOE_REGS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define MOE_NAMES_64 MOE_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MOE_REGS_64 MOE_REGS_48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define MOE_NAMES_96 MOE_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MOE_REGS_96 MOE_REGS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define MOE_NAMES_128 MOE_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MOE_REGS_128 MOE_REGS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define MOE_WGMMA(N, R, A, B, SCALE_D)                                                                    \
  template <>                                                                                             \
  struct Wgmma<N> {                                                                                       \
    static MOE_PTX void run(float (&d)[R], std::uint64_t a, std::uint64_t b, int scale_d) {               \
      asm volatile(                                                                                       \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #SCALE_D ", 0;\n"                                          \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 "                                     \
          "{" MOE_NAMES_##R "}, %" #A ", %" #B ", p, 1, 1;\n}\n"                                          \
          : MOE_REGS_##R : "l"(a), "l"(b), "r"(scale_d));                                                 \
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
#undef MOE_NAMES_4
#undef MOE_REGS_4
#undef MOE_NAMES_8
#undef MOE_REGS_8
#undef MOE_NAMES_12
#undef MOE_REGS_12
#undef MOE_NAMES_16
#undef MOE_REGS_16
#undef MOE_NAMES_24
#undef MOE_REGS_24
#undef MOE_NAMES_32
#undef MOE_REGS_32
#undef MOE_NAMES_48
#undef MOE_REGS_48
#undef MOE_NAMES_64
#undef MOE_REGS_64
#undef MOE_NAMES_96
#undef MOE_REGS_96
#undef MOE_NAMES_128
#undef MOE_REGS_128
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
