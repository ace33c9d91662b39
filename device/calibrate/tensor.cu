// How long does one SM need for its tensor instructions, alone and inside a k-block? Each entry runs
// p.iterations steps with wgmma N = p.n and writes the CTA's cycles and nanoseconds: out[block] = {cycles,
// ns}. One to four warpgroups a CTA; nothing is read from global memory.
#include "device/calibrate/calibrate_params.hpp"
#include "device/hopper/ptx_measure.cuh"

namespace moe::device {
namespace {

using namespace hopper;

// bytes: two stages of A for each of two warpgroups, then two of B (256 rows); a step takes the other stage
// than the one before, or ptxas finds that a product from zero is the same in every step and does it once
constexpr int kTileA = 64 * 128, kTilesB = 4 * kTileA, kTileB = 256 * 128;
constexpr int kScales = kTilesB + 2 * kTileB;  // then 256 scales, then barriers

__device__ __forceinline__ std::uint32_t scrambled(std::uint32_t x) {
  x *= 0x9E3779B1u;
  x ^= x >> 15;
  x *= 0x85EBCA77u;
  return x ^ x >> 13;
}

/// Codes of about normal numbers: the sum of four uniform ones, scaled as activations behind a quantiser are.
__device__ __forceinline__ std::uint32_t normal_codes(std::uint32_t index) {
  std::uint32_t codes = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t bits = scrambled(4 * index + std::uint32_t(i));
    const int sum = int(bits & 255) + int(bits >> 8 & 255) + int(bits >> 16 & 255) + int(bits >> 24) - 510;
    codes |= std::uint32_t(to_e4m3(float(sum) * 0.875f)) << 8 * i;
  }
  return codes;
}

__device__ __forceinline__ void fill_operands(const CalibrateParams& p) {
  auto* words = reinterpret_cast<std::uint32_t*>(dynamic_smem());
  for (int i = int(threadIdx.x); i < kScales / 4; i += int(blockDim.x)) {
    const auto mode = CalibrateData(p.mode);
    words[i] = mode == CalibrateData::zeros    ? 0
               : mode == CalibrateData::normal ? normal_codes(std::uint32_t(i))
                                               : scrambled(std::uint32_t(i)) & 0x7E7E7E7Eu;
  }
  auto* scales = reinterpret_cast<float*>(dynamic_smem() + kScales);
  for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x)) scales[i] = 1.0f / 64;
  fence_proxy_async();
  cta_sync();
}

struct Watch {
  std::uint64_t cycles, ns;
  /// Loops of several warps fall into one of a few rhythms, by how their warps happen to start: each warp of
  /// each CTA starts at a moment of its own within p.skew cycles, so that the mean over CTAs is of all
  /// rhythms.
  __device__ __forceinline__ void start(const CalibrateParams& p) {
    cta_sync();
    ns = nanoseconds();
    cycles = sm_cycles();
    if (p.skew <= 0) return;
    const std::uint32_t draw = scrambled(blockIdx.x * 32 + threadIdx.x / 32 + 1);
    const std::uint64_t go = cycles + draw % std::uint32_t(p.skew);
    while (sm_cycles() < go) {
    }
    warp_sync();
  }
  __device__ __forceinline__ void stop(const CalibrateParams& p) {
    cta_sync();
    if (threadIdx.x != 0) return;
    p.out[4 * blockIdx.x] = sm_cycles() - cycles;
    p.out[4 * blockIdx.x + 1] = nanoseconds() - ns;
  }
};

template <int N>
struct Operands {
  std::uint64_t first_a, first_b;
  __device__ __forceinline__ Operands()
      : first_a(desc_sw128(dynamic_smem() + int(threadIdx.x) / 128 % 2 * kTileA)),
        first_b(desc_sw128(dynamic_smem() + kTilesB)) {}
  /// k32 step j of k-block i.
  __device__ __forceinline__ std::uint64_t a(int i, int j) const {
    return first_a + (i & 1) * (2 * kTileA / 16) + 2 * j;
  }
  __device__ __forceinline__ std::uint64_t b(int i, int j) const {
    return first_b + (i & 1) * (kTileB / 16) + 2 * j;
  }
};

template <int N>
__device__ __forceinline__ void clear(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) d[i] = 0.0f;
}
/// Results must have a use, or ptxas removes what made them. The store is never done: p.cycles is below 2^40.
__device__ __forceinline__ void keep(const CalibrateParams& p, std::uint32_t bits) {
  if (std::uint64_t(bits) == p.cycles + (std::uint64_t(1) << 40)) p.out[4 * blockIdx.x + 3] = bits;
}
template <int N>
__device__ __forceinline__ void use(const CalibrateParams& p, const float (&d)[N]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum = add_rn(sum, d[i]);
  keep(p, as_bits(sum));
}

/// Eight chained wgmma a group, operands in shared memory; the next group is issued while one is in flight.
struct Chain {
  template <int N>
  static __device__ __forceinline__ void run(const CalibrateParams& p, Watch& watch) {
    const Operands<N> at;
    float d[N / 2];
    clear(d);
    watch.start(p);
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i) {
      wgmma_fence(d);
#pragma unroll
      for (int j = 0; j < 8; ++j) wgmma_e4m3<N>(d, at.a(i, j % 4), at.b(i, j % 4), 1);
      wgmma_commit();
      wgmma_wait<1>(d);
    }
    wgmma_wait<0>(d);
    watch.stop(p);
    use(p, d);
  }
};

struct ChainRegistersA {
  template <int N>
  static __device__ __forceinline__ void run(const CalibrateParams& p, Watch& watch) {
    const Operands<N> at;
    const std::uint32_t a[4] = {0x38383838u, 0x30303030u, 0x38303830u, 0x30383038u};
    float d[N / 2];
    clear(d);
    watch.start(p);
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i) {
      wgmma_fence(d);
#pragma unroll
      for (int j = 0; j < 8; ++j) wgmma_e4m3_rs<N>(d, a, at.b(i, j % 4), 1);
      wgmma_commit();
      wgmma_wait<1>(d);
    }
    wgmma_wait<0>(d);
    watch.stop(p);
    use(p, d);
  }
};

/// Four wgmma from zero and a wait: one k-block without anything behind it.
struct Drain {
  template <int N>
  static __device__ __forceinline__ void run(const CalibrateParams& p, Watch& watch) {
    const Operands<N> at;
    float d[N / 2];
    clear(d);
    watch.start(p);
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i) {
      wgmma_fence(d);
#pragma unroll
      for (int j = 0; j < 4; ++j) wgmma_e4m3<N>(d, at.a(i, j), at.b(i, j), j != 0);
      wgmma_commit();
      wgmma_wait<0>(d);
    }
    watch.stop(p);
    use(p, d);
  }
};

/// A warpgroup begins p.share cycles after the one in front of it, so that their math and promotion take
/// turns.
__device__ __forceinline__ void stagger(const CalibrateParams& p) {
  const std::uint64_t go = sm_cycles() + std::uint64_t(threadIdx.x / 128) * std::uint64_t(p.share);
  while (sm_cycles() < go) {
  }
}

/// The same and acc = fma(scale, part, acc). `Scales` are read from shared memory in each k-block: none, two
/// of the thread's rows, or N / 4 of its columns.
template <CalibrateScales Scales>
struct Promote {
  template <int N>
  static __device__ __forceinline__ void run(const CalibrateParams& p, Watch& watch) {
    const Operands<N> at;
    const auto* scales = reinterpret_cast<const volatile float*>(dynamic_smem() + kScales);
    constexpr int kCount = Scales == CalibrateScales::columns ? N / 4 : 2;
    const int lane = int(threadIdx.x) % 32;
    float part[N / 2], acc[N / 2], scale[kCount];
    clear(part);
    clear(acc);
#pragma unroll
    for (int i = 0; i < kCount; ++i) scale[i] = scales[i];
    watch.start(p);
    stagger(p);
#pragma unroll 1
    for (int i = 0; i < p.iterations; ++i) {
      wgmma_fence(part);
#pragma unroll
      for (int j = 0; j < 4; ++j) wgmma_e4m3<N>(part, at.a(i, j), at.b(i, j), j != 0);
      wgmma_commit();
      if constexpr (Scales == CalibrateScales::rows) {
        scale[0] = mul_rn(scales[lane / 4], 0.5f);
        scale[1] = mul_rn(scales[lane / 4 + 8], 0.5f);
      }
      if constexpr (Scales == CalibrateScales::columns)
#pragma unroll
        for (int s = 0; s < kCount; ++s)
          scale[s] = mul_rn(scales[8 * (s / 2) + 2 * (lane % 4) + s % 2], 0.5f);
      wgmma_wait<0>(part);
#pragma unroll
      for (int r = 0; r < N / 2; ++r) {
        const int s = Scales == CalibrateScales::columns ? r / 4 * 2 + r % 2 : r / 2 % 2;
        acc[r] = fma_rn(scale[s], part[r], acc[r]);
      }
    }
    watch.stop(p);
    use(p, acc);
  }
};

/// The promotion loop behind mbarriers: a warp marks four stages full, each math warp gives its stage back.
/// No copies, so what it needs over Promote is the waiting and the hand-over.
struct Handover {
  template <int N>
  static __device__ __forceinline__ void run(const CalibrateParams& p, Watch& watch) {
    constexpr int kStages = 4;
    auto* full = reinterpret_cast<std::uint64_t*>(dynamic_smem() + kScales + 1024);
    auto* empty = full + kStages;
    const int math_warps = int(blockDim.x) / 32 - 1, warp = int(threadIdx.x) / 32,
              lane = int(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        mbar_init(full + s, 1);
        mbar_init(empty + s, std::uint32_t(math_warps));
      }
      fence_mbar_init();
    }
    watch.start(p);
    if (warp == math_warps) {
      if (lane == 0)
        for (int i = 0, s = 0, phase = 0; i < p.iterations; ++i) {
          mbar_wait(empty + s, std::uint32_t(phase ^ 1));
          mbar_arrive(full + s);
          if (++s == kStages) s = 0, phase ^= 1;
        }
      warp_sync();
    } else {
      const Operands<N> at;
      const auto* scales = reinterpret_cast<const volatile float*>(dynamic_smem() + kScales);
      float part[N / 2], acc[N / 2];
      clear(part);
      clear(acc);
      int s = 0, phase = 0;
#pragma unroll 1
      for (int i = 0; i < p.iterations; ++i) {
        mbar_wait(full + s, std::uint32_t(phase));
        wgmma_fence(part);
#pragma unroll
        for (int j = 0; j < 4; ++j) wgmma_e4m3<N>(part, at.a(i, j), at.b(i, j), j != 0);
        wgmma_commit();
        const float s0 = mul_rn(scales[lane / 4], 0.5f), s1 = mul_rn(scales[lane / 4 + 8], 0.5f);
        wgmma_wait<0>(part);
        warp_sync();
        if (lane == 0) mbar_arrive(empty + s);
#pragma unroll
        for (int r = 0; r < N / 2; ++r) acc[r] = fma_rn(r / 2 % 2 ? s1 : s0, part[r], acc[r]);
        if (++s == kStages) s = 0, phase ^= 1;
      }
      use(p, acc);
    }
    watch.stop(p);
  }
};

/// Tensor work of a stated density until p.cycles have gone by: after every four wgmma of N = 128 the
/// warpgroup idles p.loads cycles. out[block] = {wgmma, cycles, ns}, so that the host knows the density and
/// the clock.
__device__ __forceinline__ void busy(const CalibrateParams& p) {
  const Operands<128> at;
  float d[64];
  clear(d);
  const std::uint64_t start = sm_cycles(), start_ns = nanoseconds();
  std::uint64_t issued = 0, now = start;
  while (now - start < p.cycles) {
#pragma unroll 1
    for (int i = 0; i < 64; ++i) {
      wgmma_fence(d);
#pragma unroll
      for (int j = 0; j < 4; ++j) wgmma_e4m3<128>(d, at.a(i, j), at.b(i, j), j != 0);
      wgmma_commit();
      wgmma_wait<0>(d);
      const std::uint64_t rest = sm_cycles() + std::uint64_t(p.loads);
      while (p.loads > 0 && sm_cycles() < rest) {
      }
    }
    issued += 4 * 64;
    now = sm_cycles();
  }
  use(p, d);
  if (threadIdx.x != 0) return;
  p.out[4 * blockIdx.x] = issued;
  p.out[4 * blockIdx.x + 1] = sm_cycles() - start;
  p.out[4 * blockIdx.x + 2] = nanoseconds() - start_ns;
}

/// Runs `Test` with N = p.n up to `Most`.
template <class Test, int Most>
__device__ __forceinline__ void with_n(const CalibrateParams& p) {
  fill_operands(p);
  Watch watch;
  switch (p.n) {
    case 8:
      return Test::template run<8>(p, watch);
    case 16:
      return Test::template run<16>(p, watch);
    case 24:
      return Test::template run<24>(p, watch);
    case 32:
      return Test::template run<32>(p, watch);
    case 48:
      return Test::template run<48>(p, watch);
    case 64:
      return Test::template run<64>(p, watch);
    case 96:
      return Test::template run<96>(p, watch);
    case 128:
      return Test::template run<128>(p, watch);
    case 192:
      if constexpr (Most >= 192) return Test::template run<192>(p, watch);
      return;
    case 256:
      if constexpr (Most >= 256) return Test::template run<256>(p, watch);
      return;
    default:
      return;
  }
}

}  // namespace

#define MOE_ENTRY extern "C" __global__ void __launch_bounds__(256, 1)
MOE_ENTRY wgmma_chain(const __grid_constant__ CalibrateParams p) { with_n<Chain, 256>(p); }
MOE_ENTRY wgmma_chain_rs(const __grid_constant__ CalibrateParams p) { with_n<ChainRegistersA, 256>(p); }
MOE_ENTRY wgmma_drain(const __grid_constant__ CalibrateParams p) { with_n<Drain, 256>(p); }
MOE_ENTRY wgmma_promote(const __grid_constant__ CalibrateParams p) {
  with_n<Promote<CalibrateScales::none>, 192>(p);
}
MOE_ENTRY wgmma_promote_rows(const __grid_constant__ CalibrateParams p) {
  with_n<Promote<CalibrateScales::rows>, 128>(p);
}
MOE_ENTRY wgmma_promote_columns(const __grid_constant__ CalibrateParams p) {
  with_n<Promote<CalibrateScales::columns>, 128>(p);
}
extern "C" __global__ void __launch_bounds__(288, 1)
    wgmma_handover(const __grid_constant__ CalibrateParams p) {
  with_n<Handover, 128>(p);
}
MOE_ENTRY tensor_busy(const __grid_constant__ CalibrateParams p) {
  fill_operands(p);
  busy(p);
}

/// f16 mma.sync, eight independent accumulators a warp. out = {cycles, ns} for 32 p.iterations mma a warp.
extern "C" __global__ void __launch_bounds__(512, 1)
    mma_f16_chain(const __grid_constant__ CalibrateParams p) {
  float d[8][4] = {};
  std::uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x3C003C00u + std::uint32_t(threadIdx.x);
  for (int i = 0; i < 2; ++i) b[i] = 0x2C002C00u + std::uint32_t(threadIdx.x);
  Watch watch;
  watch.start(p);
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i)
#pragma unroll
    for (int t = 0; t < 32; ++t) mma_f16(d[t % 8], a, b);
  watch.stop(p);
  for (int t = 0; t < 8; ++t) use(p, d[t]);
}

/// e4m3x2 -> f16x2: eight independent chains a warp, two conversions a step each.
extern "C" __global__ void __launch_bounds__(512, 1)
    convert_chain(const __grid_constant__ CalibrateParams p) {
  std::uint32_t codes[8];
  for (int t = 0; t < 8; ++t) codes[t] = scrambled(threadIdx.x * 8 + std::uint32_t(t)) & 0x7E7E7E7Eu;
  Watch watch;
  watch.start(p);
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i)
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      std::uint32_t lo, hi;
      e4m3x4_to_f16(codes[t], lo, hi);
      codes[t] = (lo ^ hi) & 0x7E7E7E7Eu;
    }
  watch.stop(p);
  for (int t = 0; t < 8; ++t) keep(p, codes[t]);
}

}  // namespace moe::device
