// How fast do bytes come from HBM and L2, and what does it cost a thread to ask for them? No tensor work.
// Rings of p.stages stages of shared memory; out[block] = {cycles, ns} of the CTA.
#include "device/calibrate/calibrate_params.hpp"
#include "device/hopper/ptx_measure.cuh"

namespace moe::device {
namespace {

using namespace hopper;

constexpr int kMostStages = 64;

/// One mbarrier a stage, in front of the stages.
struct Ring {
  __device__ __forceinline__ std::uint64_t* full(int s) const {
    return reinterpret_cast<std::uint64_t*>(dynamic_smem()) + s;
  }
  __device__ __forceinline__ std::uint64_t* empty(int s) const { return full(kMostStages + s); }
  __device__ __forceinline__ std::uint8_t* stage(int s, int bytes) const {
    return dynamic_smem() + 1024 + s * bytes;
  }
  __device__ __forceinline__ void open(int stages) const {
    if (threadIdx.x == 0) {
      for (int s = 0; s < stages; ++s) {
        mbar_init(full(s), 1);
        mbar_init(empty(s), 1);
      }
      fence_mbar_init();
    }
    cta_sync();
  }
};

__device__ __forceinline__ void report(const CalibrateParams& p, std::uint64_t cycles, std::uint64_t ns) {
  p.out[4 * blockIdx.x] = sm_cycles() - cycles;
  p.out[4 * blockIdx.x + 1] = nanoseconds() - ns;
}

/// One thread keeps p.stages copies in flight: `issue(i, slot)` starts copy i of p.iterations.
template <class Issue>
__device__ __forceinline__ void stream(const CalibrateParams& p, const Ring& ring, Issue issue) {
  const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
  int slot = 0;
  std::uint32_t phase = 0;
  const int first = p.iterations < p.stages ? p.iterations : p.stages;
  for (int i = 0; i < first; ++i) issue(i, i);
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i) {
    mbar_wait(ring.full(slot), phase);
    if (i + p.stages < p.iterations) issue(i + p.stages, slot);
    if (++slot == p.stages) slot = 0, phase ^= 1;
  }
  report(p, cycles, ns);
}

/// A place in the region that advances by a fixed step and starts over at the end.
struct Walk {
  std::uint64_t at, step, bytes;
  __device__ __forceinline__ std::uint64_t next() {
    const std::uint64_t here = at;
    at += step;
    if (at >= bytes) at -= bytes;
    return here;
  }
};

}  // namespace

/// Contiguous blocks of p.chunk bytes: CTAs side by side through the region, p.share of them at the same
/// place.
extern "C" __global__ void __launch_bounds__(32) stream_blocks(const __grid_constant__ CalibrateParams p) {
  const Ring ring;
  ring.open(p.stages);
  if (threadIdx.x != 0) return;
  const std::uint64_t chunk = std::uint64_t(p.chunk),
                      places = (gridDim.x + unsigned(p.share) - 1) / unsigned(p.share);
  Walk walk{std::uint64_t(blockIdx.x) / unsigned(p.share) * chunk, places * chunk, p.bytes};
  stream(p, ring, [&](int, int slot) {
    mbar_arrive_expect_tx(ring.full(slot), std::uint32_t(p.chunk));
    bulk_load(ring.stage(slot, p.chunk), p.data + walk.next(), std::uint32_t(p.chunk), ring.full(slot));
  });
}

/// A matrix of p.columns bytes a row in boxes of p.box_rows x 128 bytes, as a grouped GEMM reads its weights:
/// along the row first, then the CTA's next panel. p.mode = 1 asks L2 to drop them first.
extern "C" __global__ void __launch_bounds__(32) stream_boxes(const __grid_constant__ CalibrateParams p) {
  const Ring ring;
  ring.open(p.stages);
  if (threadIdx.x != 0) return;
  const L2Hint once = l2_evict_first();
  const int bytes = p.box_rows * 128, step = int(gridDim.x) * p.box_rows;
  const int rows = int(p.bytes / std::uint64_t(p.columns));
  int x = 0, y = int(blockIdx.x) * p.box_rows;
  stream(p, ring, [&](int, int slot) {
    mbar_arrive_expect_tx(ring.full(slot), std::uint32_t(bytes));
    if (p.mode == 1)
      tma_load_2d(ring.stage(slot, bytes), &p.map, ring.full(slot), x, y, once);
    else
      tma_load_2d(ring.stage(slot, bytes), &p.map, ring.full(slot), x, y);
    x += 128;
    if (x < p.columns) return;
    x = 0;
    y += step;
    if (y >= rows) y -= rows;
  });
}

/// One box after another, the next place read from the one before: p.iterations boxes, p.box_rows rows and a
/// column of 128 bytes apart; no word of the region is 0xFFFFFFFF.
extern "C" __global__ void __launch_bounds__(32) box_latency(const __grid_constant__ CalibrateParams p) {
  const Ring ring;
  ring.open(1);
  if (threadIdx.x != 0) return;
  const int bytes = p.box_rows * 128, rows = int(p.bytes / std::uint64_t(p.columns));
  const auto* first = reinterpret_cast<const volatile std::uint32_t*>(ring.stage(0, bytes));
  int x = 0, y = p.mode;
  const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i) {
    mbar_arrive_expect_tx(ring.full(0), std::uint32_t(bytes));
    tma_load_2d(ring.stage(0, bytes), &p.map, ring.full(0), x, y);
    mbar_wait(ring.full(0), std::uint32_t(i & 1));
    y += p.box_rows * p.share + (*first == 0xFFFFFFFFu ? 1 : 0);
    if (y + p.box_rows <= rows) continue;
    y = 0;
    x += 128;
    if (x >= p.columns) x = 0;
  }
  report(p, cycles, ns);
}

/// A loader and one warp that gives each stage back: p.loads boxes of p.box_rows rows a step out of L2.
/// p.mode = 1: the loader alone, which waits for its own copies of the lap before.
extern "C" __global__ void __launch_bounds__(64) loader(const __grid_constant__ CalibrateParams p) {
  const Ring ring;
  ring.open(p.stages);
  if (threadIdx.x % 32 != 0) return;
  const int box = p.box_rows * 128, bytes = p.loads * box;
  int slot = 0;
  std::uint32_t phase = 0;
  if (threadIdx.x == 32) {
    if (p.mode == 1) return;
    for (int i = 0; i < p.iterations; ++i) {
      mbar_wait(ring.full(slot), phase);
      mbar_arrive(ring.empty(slot));
      if (++slot == p.stages) slot = 0, phase ^= 1;
    }
    return;
  }
  const L2Hint once = l2_evict_first();
  int x = 0;
  const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i) {
    mbar_wait(p.mode == 1 ? ring.full(slot) : ring.empty(slot), phase ^ 1);
    mbar_arrive_expect_tx(ring.full(slot), std::uint32_t(bytes));
    std::uint8_t* to = ring.stage(slot, bytes);
    for (int l = 0; l < p.loads; ++l)
      tma_load_2d(to + l * box, &p.map, ring.full(slot), x,
                  int(blockIdx.x) * p.box_rows * p.loads + l * p.box_rows, once);
    x += 128;
    if (x >= p.columns) x = 0;
    if (++slot == p.stages) slot = 0, phase ^= 1;
  }
  report(p, cycles, ns);
  for (int s = 0; s < p.stages; ++s) {  // no copy may outlive the CTA
    mbar_wait(p.mode == 1 ? ring.full(slot) : ring.empty(slot), phase ^ 1);
    if (++slot == p.stages) slot = 0, phase ^= 1;
  }
}

/// A thread that waits p.iterations times for a phase that has ended.
extern "C" __global__ void __launch_bounds__(32) wait_cost(const __grid_constant__ CalibrateParams p) {
  const Ring ring;
  ring.open(1);
  if (threadIdx.x != 0) return;
  const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
#pragma unroll 1
  for (int i = 0; i < p.iterations; ++i) mbar_wait(ring.full(0), 1);
  report(p, cycles, ns);
}

/// 16-byte stores of p.bytes, all CTAs side by side, p.iterations times over.
extern "C" __global__ void __launch_bounds__(512) write_region(const __grid_constant__ CalibrateParams p) {
  const std::uint64_t step = 16ull * gridDim.x * blockDim.x,
                      first = 16ull * (std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  for (int i = 0; i < p.iterations; ++i)
    for (std::uint64_t at = first; at < p.bytes; at += step)
      *reinterpret_cast<uint4*>(p.target + at) = uint4{unsigned(i), 0, 0, 0};
}

/// Random bytes over p.bytes of the target, by a place's own number; no word is 0xFFFFFFFF.
extern "C" __global__ void __launch_bounds__(512) fill_region(const __grid_constant__ CalibrateParams p) {
  const std::uint64_t step = std::uint64_t(gridDim.x) * blockDim.x;
  for (std::uint64_t i = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; 16 * i < p.bytes; i += step) {
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t x = std::uint32_t(4 * i + w) * 0x9E3779B1u ^ std::uint32_t(i >> 30);
      x ^= x >> 15;
      x *= 0x85EBCA77u;
      x ^= x >> 13;
      words[w] = x == 0xFFFFFFFFu ? 0 : x;
    }
    reinterpret_cast<uint4*>(p.target)[i] = uint4{words[0], words[1], words[2], words[3]};
  }
}

/// target = data, as an elementwise kernel does it: four 16-byte pieces a thread at a time.
extern "C" __global__ void __launch_bounds__(256) copy_region(const __grid_constant__ CalibrateParams p) {
  const std::uint64_t step = 16ull * gridDim.x * blockDim.x,
                      first = 16ull * (std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  for (std::uint64_t at = first; at < p.bytes; at += 4 * step) {
    uint4 pieces[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (at + std::uint64_t(i) * step < p.bytes)
        pieces[i] = *reinterpret_cast<const uint4*>(p.data + at + std::uint64_t(i) * step);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (at + std::uint64_t(i) * step < p.bytes)
        *reinterpret_cast<uint4*>(p.target + at + std::uint64_t(i) * step) = pieces[i];
  }
}

}  // namespace moe::device
