// What does a Hopper instruction do where there is no Hopper? Emulator bodies of the layer and the CUDA
// keywords. Every function here is a thin always-inlined call of the emulated SM (device/emulator), which
// sees the call's address and so the kernel's source line; nothing may be an ordinary inline function
// (README.md says why).
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"
#include "fixtures/problem/host_device.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define threadIdx (::moe::hopper::engine::Index{::moe::hopper::engine::thread_index(), 0, 0})
#define blockIdx (::moe::hopper::engine::Index{::moe::hopper::engine::cta_index(), 0, 0})
#define blockDim (::moe::hopper::engine::Index{::moe::hopper::engine::cta_size(), 1, 1})
#define gridDim (::moe::hopper::engine::Index{::moe::hopper::engine::grid_size(), 1, 1})

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace moe::hopper {

/// Entry points of the emulated SM. A thread's indices never change, hence `const`: the compiler may keep
/// them.
namespace engine {
struct Index {
  unsigned x, y, z;
};
__attribute__((const)) unsigned thread_index() noexcept;
__attribute__((const)) unsigned cta_index() noexcept;
__attribute__((const)) unsigned cta_size() noexcept;
__attribute__((const)) unsigned grid_size() noexcept;
__attribute__((const)) std::uint8_t* dynamic_smem() noexcept;
void at_tile(int expert, int row, int panel);
void at_k_block(int k_block, int stage);
void mbar_init(void* bar, std::uint32_t count);
void fence_mbar_init();
void fence_proxy_async(bool global);
void fence_gpu();
void mbar_arrive(void* bar, std::uint32_t bytes, bool expect);
bool mbar_wait(void* bar, std::uint32_t parity, bool may_fail);
void tma_load_2d(void* dst, const TensorMap* map, void* bar, int x, int y);
void bulk_load(void* dst, const void* src, std::uint32_t bytes, void* bar);
void bulk_store(void* dst, const void* src, std::uint32_t bytes);
void bulk_commit();
void bulk_wait(int groups_left, bool read_only);
void wgmma_fence(float* d, int registers);
void wgmma_e4m3(float* d, int n, std::uint64_t desc_a, std::uint64_t desc_b, bool scale_d);
void wgmma_commit();
void wgmma_wait(int groups_left, float* d, int registers);
std::uint64_t descriptor(const void* p, Swizzle swizzle, std::uint32_t column_bytes);
void mma_f16(float* d, const std::uint32_t* a, const std::uint32_t* b);
void named_barrier(int id, int threads);
void cta_sync();
void warp_sync();
void setmaxnreg(int registers, bool increase);
bool elect_one();
std::uint32_t shfl(std::uint32_t value, int lane_or_mask, bool exclusive_or);
std::uint32_t ballot(bool predicate);
void ld_volatile(const void* p, void* value);
std::uint32_t ld_acquire(const void* p);
void st_release(void* p, std::uint32_t value);
enum class Red { add, add_release, max };
void red(void* p, std::uint32_t value, Red what);
void grid_wait();
void grid_launch_dependents();
}  // namespace engine

MOE_HD std::uint8_t* dynamic_smem() { return engine::dynamic_smem(); }

// ---- where this thread is in its work: the tile (expert, first row, panel of columns), its k-block and the stage.
// Reports say it; it costs nothing on a card.
MOE_HD void at_tile(int expert, int row, int panel) { engine::at_tile(expert, row, panel); }
MOE_HD void at_k_block(int k_block, int stage) { engine::at_k_block(k_block, stage); }

// ---- mbarriers and fences
MOE_HD void mbar_init(std::uint64_t* bar, std::uint32_t count) { engine::mbar_init(bar, count); }
MOE_HD void fence_mbar_init() { engine::fence_mbar_init(); }
MOE_HD void fence_proxy_async() { engine::fence_proxy_async(false); }
MOE_HD void fence_proxy_async_global() { engine::fence_proxy_async(true); }
MOE_HD void fence_gpu() { engine::fence_gpu(); }
MOE_HD void mbar_arrive(std::uint64_t* bar) { engine::mbar_arrive(bar, 0, false); }
MOE_HD void mbar_arrive_expect_tx(std::uint64_t* bar, std::uint32_t bytes) {
  engine::mbar_arrive(bar, bytes, true);
}
MOE_HD bool mbar_try_wait(std::uint64_t* bar, std::uint32_t parity) {
  return engine::mbar_wait(bar, parity, true);
}
MOE_HD void mbar_wait(std::uint64_t* bar, std::uint32_t parity) { engine::mbar_wait(bar, parity, false); }

// ---- copies; a cache policy changes nothing here
struct L2Hint {
  std::uint64_t policy;
};
MOE_HD L2Hint l2_evict_first() { return L2Hint{0}; }
MOE_HD void prefetch_map(const TensorMap*) {}
MOE_HD void tma_load_2d(void* dst, const TensorMap* map, std::uint64_t* bar, int x, int y) {
  engine::tma_load_2d(dst, map, bar, x, y);
}
MOE_HD void tma_load_2d(void* dst, const TensorMap* map, std::uint64_t* bar, int x, int y, L2Hint) {
  engine::tma_load_2d(dst, map, bar, x, y);
}
MOE_HD void bulk_load(void* dst, const void* src, std::uint32_t bytes, std::uint64_t* bar) {
  engine::bulk_load(dst, src, bytes, bar);
}
MOE_HD void bulk_load(void* dst, const void* src, std::uint32_t bytes, std::uint64_t* bar, L2Hint) {
  engine::bulk_load(dst, src, bytes, bar);
}
MOE_HD void bulk_store(void* dst, const void* src, std::uint32_t bytes) {
  engine::bulk_store(dst, src, bytes);
}
MOE_HD void bulk_commit() { engine::bulk_commit(); }
template <int N>
MOE_HD void bulk_wait_read() {
  engine::bulk_wait(N, true);
}
template <int N>
MOE_HD void bulk_wait() {
  engine::bulk_wait(N, false);
}
MOE_HD uint4 ld_volatile(const uint4* p) {
  uint4 q;
  engine::ld_volatile(p, &q);
  return q;
}
MOE_HD std::uint32_t ld_acquire(const std::uint32_t* p) { return engine::ld_acquire(p); }
MOE_HD void st_release(std::uint32_t* p, std::uint32_t value) { engine::st_release(p, value); }
MOE_HD void atomic_add(std::uint32_t* p, std::uint32_t value) { engine::red(p, value, engine::Red::add); }
MOE_HD void atomic_add_release(std::uint32_t* p, std::uint32_t value) {
  engine::red(p, value, engine::Red::add_release);
}
MOE_HD void atomic_max(std::uint32_t* p, std::uint32_t value) { engine::red(p, value, engine::Red::max); }

// ---- tensor cores
constexpr bool has_wgmma_body(int n) {
  return n == 8 || n == 16 || n == 24 || n == 32 || n == 48 || n == 64 || n == 96 || n == 128 || n == 192 ||
         n == 256;
}
MOE_HD std::uint64_t desc_sw128(const void* p) { return engine::descriptor(p, Swizzle::b128, 16); }
template <Swizzle S>
MOE_HD std::uint64_t descriptor(const void* p, std::uint32_t column_bytes = 16) {
  return engine::descriptor(p, S, column_bytes);
}
template <int R>
MOE_HD void wgmma_fence(float (&d)[R]) {
  engine::wgmma_fence(d, R);
}
template <int N>
MOE_HD void wgmma_e4m3(float (&d)[N / 2], std::uint64_t desc_a, std::uint64_t desc_b, int scale_d) {
  static_assert(has_wgmma_body(N));
  engine::wgmma_e4m3(d, N, desc_a, desc_b, scale_d != 0);
}
MOE_HD void wgmma_commit() { engine::wgmma_commit(); }
template <int W, int R>
MOE_HD void wgmma_wait(float (&d)[R]) {
  engine::wgmma_wait(W, d, R);
}
MOE_HD void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  engine::mma_f16(d, a, b);
}

// ---- CTA and warp
MOE_HD void named_barrier(int id, int threads) { engine::named_barrier(id, threads); }
MOE_HD void cta_sync() { engine::cta_sync(); }
MOE_HD void warp_sync() { engine::warp_sync(); }
template <int R>
MOE_HD void setmaxnreg_inc() {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0);
  engine::setmaxnreg(R, true);
}
template <int R>
MOE_HD void setmaxnreg_dec() {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0);
  engine::setmaxnreg(R, false);
}
MOE_HD bool elect_one() { return engine::elect_one(); }
MOE_HD std::uint32_t shfl_xor(std::uint32_t value, int lane_mask) {
  return engine::shfl(value, lane_mask, true);
}
MOE_HD float shfl_xor(float value, int lane_mask) {
  return __builtin_bit_cast(float, engine::shfl(__builtin_bit_cast(std::uint32_t, value), lane_mask, true));
}
MOE_HD std::uint32_t shfl_idx(std::uint32_t value, int lane) { return engine::shfl(value, lane, false); }
MOE_HD std::uint32_t ballot(bool predicate) { return engine::ballot(predicate); }
MOE_HD std::uint32_t redux_max(std::uint32_t value) {
  for (int step = 16; step > 0; step /= 2) {
    const std::uint32_t other = shfl_xor(value, step);
    value = other > value ? other : value;
  }
  return value;
}
MOE_HD std::uint32_t redux_min(std::uint32_t value) { return ~redux_max(~value); }
MOE_HD int popc(std::uint32_t bits) {  // no library call: the lint of instrumented objects counts those
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  return int(((bits + (bits >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}

// ---- dependent launches
MOE_HD void grid_wait() { engine::grid_wait(); }
MOE_HD void grid_launch_dependents() { engine::grid_launch_dependents(); }

}  // namespace moe::hopper
