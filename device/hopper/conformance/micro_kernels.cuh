// Contract: conformance_params.hpp. One short kernel a group of primitives; micro_kernels.cu gives them their
// entry names for the card, micro_kernels.cpp is the emulated SM's table.
#pragma once
#include "device/hopper/conformance/conformance_params.hpp"
#include "device/hopper/hopper.hpp"

namespace moe::hopper::conformance {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ std::uint64_t* one_barrier(std::uint8_t * at) {
    std::uint64_t* bar = reinterpret_cast<std::uint64_t*>(at);
    if (threadIdx.x == 0) {
      mbar_init(bar, 1);
      fence_mbar_init();
    }
    cta_sync();
    return bar;
  }

  template <int N>
  __device__ __forceinline__ void wgmma_tile(const Params& p) {
    std::uint8_t* smem = dynamic_smem();
    std::uint64_t* bar = one_barrier(smem + 64 * 128 + 256 * 128);
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      mbar_arrive_expect_tx(bar, (64 + N) * 128);
      tma_load_2d(smem, &p.a, bar, 0, 0);
      tma_load_2d(smem + 64 * 128, &p.b, bar, 0, 0, l2_evict_first());
    }
    mbar_wait(bar, 0);
    const std::uint64_t a = desc_sw128(smem), b = desc_sw128(smem + 64 * 128);
    float d[N / 2];
    wgmma_fence(d);
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < 4; ++j) wgmma_e4m3<N>(d, a + 2 * j, b + 2 * j, pass + j != 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    float* out = reinterpret_cast<float*>(p.out);
    for (int i = 0; i < N / 2; ++i)
      out[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * N + 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)] = d[i];
  }

  __device__ __forceinline__ void tma_box(const Params& p) {
    std::uint8_t* smem = dynamic_smem();
    std::uint64_t* bar = one_barrier(smem + 64 * 128);
    if (threadIdx.x == 0) {
      prefetch_map(&p.a);
      mbar_arrive_expect_tx(bar, std::uint32_t(64 * p.n));
      tma_load_2d(smem, &p.a, bar, p.x, p.y);
    }
    while (!mbar_try_wait(bar, 0)) {
    }
    for (int i = int(threadIdx.x); i < 4 * p.n; i += 128)
      reinterpret_cast<uint4*>(p.out)[i] = reinterpret_cast<const uint4*>(smem)[i];
  }

  /// Tiles of row_bytes(S) bytes of K each, 64 rows of A and of B.
  template <Swizzle S>
  __device__ __forceinline__ void wgmma_layout(const Params& p) {
    constexpr int kRow = int(row_bytes(S)), kTile = 64 * kRow;
    std::uint8_t *smem = dynamic_smem(), *b_tiles = smem + 64 * 128;
    std::uint64_t* bar = one_barrier(smem + 2 * 64 * 128);
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      mbar_arrive_expect_tx(bar, 2 * 64 * 128);
      for (int tile = 0; tile < 128 / kRow; ++tile) {
        tma_load_2d(smem + tile * kTile, &p.a, bar, tile * kRow, 0);
        tma_load_2d(b_tiles + tile * kTile, &p.b, bar, tile * kRow, 0);
      }
    }
    mbar_wait(bar, 0);
    float d[32];
    wgmma_fence(d);
    for (int k = 0; k < 128; k += 32) {
      const int tile = k / kRow, within = k % kRow;
      wgmma_e4m3<64>(d, descriptor<S>(smem + tile * kTile, kTile) + std::uint64_t(within / 16),
                     descriptor<S>(b_tiles + tile * kTile, kTile) + std::uint64_t(within / 16), k != 0);
    }
    wgmma_commit();
    wgmma_wait<0>(d);
    float* out = reinterpret_cast<float*>(p.out);
    for (int i = 0; i < 32; ++i)
      out[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * 64 + 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)] = d[i];
  }

  __device__ __forceinline__ void phases(const Params& p) {
    std::uint8_t* smem = dynamic_smem();
    std::uint64_t* bar = reinterpret_cast<std::uint64_t*>(smem + 1024);
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out);
    if (threadIdx.x != 0) return;
    mbar_init(bar, 2);
    fence_mbar_init();
    out[0] = mbar_try_wait(bar, 1);  // the phase in front of the first counts as complete
    out[1] = mbar_try_wait(bar, 0);
    mbar_arrive(bar);
    out[2] = mbar_try_wait(bar, 0);
    mbar_arrive(bar);
    out[3] = mbar_try_wait(bar, 0);
    out[4] = mbar_try_wait(bar, 1);
    mbar_arrive_expect_tx(bar, 64);
    mbar_arrive(bar);
    out[5] = mbar_try_wait(bar, 1);  // all have arrived, bytes are missing
    bulk_load(smem, p.in, 64, bar);
    mbar_wait(bar, 1);
    out[6] = mbar_try_wait(bar, 1);
    out[7] = mbar_try_wait(bar, 0);
    out[8] = reinterpret_cast<const std::uint32_t*>(smem)[15];
  }

  /// Each CTA's 128 words pass to three others: by a counter and a bulk load, by a flag, by fences.
  __device__ __forceinline__ void grid_words(const Params& p) {
    std::uint32_t* words = reinterpret_cast<std::uint32_t*>(p.out);
    std::uint32_t *counter = words, *fenced = words + 4, *flags = words + 8, *middle = words + 64;
    const unsigned ctas = gridDim.x, cta = blockIdx.x, t = threadIdx.x;
    std::uint8_t* smem = dynamic_smem();
    std::uint64_t* bar = one_barrier(smem + 1024);
    middle[128 * cta + t] = reinterpret_cast<const std::uint32_t*>(p.in)[t] * (cta + 1);
    cta_sync();
    if (t == 0) {
      atomic_add_release(counter, 1);
      while (ld_acquire(counter) < ctas) {
      }
      fence_proxy_async_global();
      mbar_arrive_expect_tx(bar, 512);
      bulk_load(smem, middle + 128 * ((cta + 1) % ctas), 512, bar);
    }
    mbar_wait(bar, 0);
    std::uint32_t value = reinterpret_cast<const std::uint32_t*>(smem)[t];
    if (t == 0) {
      st_release(flags + cta, 1);
      while (ld_acquire(flags + (cta + 2) % ctas) != 1) {
      }
    }
    cta_sync();
    value += 3 * middle[128 * ((cta + 2) % ctas) + t];
    cta_sync();
    if (t == 0) {
      fence_gpu();
      atomic_add(fenced, 1);
      while (ld_volatile(reinterpret_cast<const uint4*>(fenced)).x < ctas) {
      }
      fence_gpu();
    }
    cta_sync();
    middle[128 * cta + t] = value;  // all have read what stood here
  }

  /// The sum of `Words` words that depend on each other in such a way that all are held at once.
  template <int Words>
  __device__ __forceinline__ std::uint32_t mixed_words(const std::uint32_t* in) {
    std::uint32_t word[Words];
#pragma unroll
    for (int i = 0; i < Words; ++i) word[i] = in[(int(threadIdx.x) + i) % 128] * std::uint32_t(2 * i + 1);
#pragma unroll
    for (int round = 0; round < 3; ++round)
#pragma unroll
      for (int i = 0; i < Words; ++i) word[i] = word[i] * 0x9E3779B1u + word[(i + Words / 2 + round) % Words];
    std::uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < Words; ++i) sum += word[i];
    return sum;
  }
  /// Two warpgroups take registers, the third gives them.
  __device__ __forceinline__ void registers(const Params& p) {
    const std::uint32_t* in = reinterpret_cast<const std::uint32_t*>(p.in);
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out) + threadIdx.x;
    if (threadIdx.x / 128 == 2) {
      setmaxnreg_dec<40>();
      *out = mixed_words<8>(in);
    } else {
      setmaxnreg_inc<232>();
      *out = mixed_words<160>(in);
    }
  }

  __device__ __forceinline__ void bulk_copy(const Params& p) {
    std::uint8_t* smem = dynamic_smem();
    std::uint64_t* bar = one_barrier(smem + 64 * 128);
    if (threadIdx.x < 32 && elect_one()) {
      mbar_arrive_expect_tx(bar, std::uint32_t(p.n));
      bulk_load(smem, p.in, std::uint32_t(p.n), bar);
    }
    mbar_wait(bar, 0);
    // through an ordinary copy, so that the proxy fence is needed
    for (int i = int(threadIdx.x); i < p.n / 16; i += 128)
      reinterpret_cast<uint4*>(smem + 4096)[i] = reinterpret_cast<const uint4*>(smem)[i];
    fence_proxy_async();
    cta_sync();
    if (threadIdx.x == 0) {
      bulk_store(p.out, smem + 4096, std::uint32_t(p.n));
      bulk_commit();
      bulk_wait_read<0>();
      bulk_wait<0>();
    }
  }

  __device__ __forceinline__ void mma_tile(const Params& p) {
    const int lane = int(threadIdx.x), g = lane / 4, t = lane % 4;
    const std::uint8_t *a_codes = p.in, *b_codes = p.in + 16 * 16;
    std::uint32_t a[4], b[2], unused;
    for (int r = 0; r < 4; ++r)  // register r: row g or g+8, columns 2t, 2t+1 or 2t+8, 2t+9
      e4m3x4_to_f16(
          *reinterpret_cast<const std::uint16_t*>(a_codes + (g + 8 * (r & 1)) * 16 + 2 * t + 8 * (r >> 1)),
          a[r], unused);
    for (int r = 0; r < 2; ++r)
      e4m3x4_to_f16(*reinterpret_cast<const std::uint16_t*>(b_codes + g * 16 + 2 * t + 8 * r), b[r], unused);
    float d[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    mma_f16(d, a, b);
    float* out = reinterpret_cast<float*>(p.out);
    for (int i = 0; i < 4; ++i) out[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
  }

  __device__ __forceinline__ void convert(const Params& p) {
    const int i = int(threadIdx.x);
    if (i >= p.n) return;
    const float x = reinterpret_cast<const float*>(p.in)[i],
                y = reinterpret_cast<const float*>(p.in)[p.n - 1 - i];
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out) + 8 * i;
    const std::uint32_t c = 2 * std::uint32_t(i);
    out[0] = to_e4m3(x);
    std::uint32_t lo, hi;
    e4m3x4_to_f16((c & 255) | ((c + 1) & 255) << 8 | ((c + 2) & 255) << 16 | ((c + 3) & 255) << 24, lo, hi);
    out[1] = lo;
    out[2] = hi;
    out[3] = pack_bf16(x, sub_rn(0.0f, x));
    out[4] = as_bits(max_mag(x, y));
    out[5] = as_bits(div_rn(x, y));
    out[6] = as_bits(sqrt_rn(max_mag(x, x)));
    out[7] = as_bits(add_rn(fma_rn(x, x, y), mul_rn(x, y)));
  }

  __device__ __forceinline__ void exchange(const Params& p) {
    const int thread = int(threadIdx.x), lane = thread % 32;
    const std::uint32_t mine = std::uint32_t(thread * thread + 7);
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out) + 5 * thread;
    out[0] = shfl_xor(mine, 5) + as_bits(shfl_xor(float(lane), 16));
    out[1] = shfl_idx(mine, (lane * 3 + 1) % 32);
    const std::uint32_t votes = ballot(mine % 3 == 1);
    out[2] = votes;
    out[3] = std::uint32_t(popc(votes));
    out[4] = std::uint32_t(popc(ballot(elect_one())));
    warp_sync();
    named_barrier(2, 64);
  }

  __device__ __forceinline__ void reduce(const Params& p) {
    grid_wait();
    const std::uint32_t value = reinterpret_cast<const std::uint32_t*>(p.in)[threadIdx.x];
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out);
    atomic_add(out, value);
    atomic_max(out + 1, value);
    grid_launch_dependents();
  }

  __device__ __forceinline__ void redux(const Params& p) {
    const std::uint32_t value = reinterpret_cast<const std::uint32_t*>(p.in)[threadIdx.x];
    std::uint32_t* out = reinterpret_cast<std::uint32_t*>(p.out) + 2 * threadIdx.x;
    out[0] = redux_max(value);
    out[1] = redux_min(value);
  }

  /// The kernel of that name in kKernels.
  template <int Index>
  __device__ __forceinline__ void run_kernel(const Params& p) {
    if constexpr (Index < 10) wgmma_tile<kWgmmaWidths[Index]>(p);
    if constexpr (Index == 10) tma_box(p);
    if constexpr (Index == 11) bulk_copy(p);
    if constexpr (Index == 12) mma_tile(p);
    if constexpr (Index == 13) convert(p);
    if constexpr (Index == 14) exchange(p);
    if constexpr (Index == 15) reduce(p);
    if constexpr (Index == 16) redux(p);
    if constexpr (Index == 17) wgmma_layout<Swizzle::b64>(p);
    if constexpr (Index == 18) wgmma_layout<Swizzle::b32>(p);
    if constexpr (Index == 19) wgmma_layout<Swizzle::none>(p);
    if constexpr (Index == 20) phases(p);
    if constexpr (Index == 21) grid_words(p);
    if constexpr (Index == 22) registers(p);
  }
}
}  // namespace moe::hopper::conformance
