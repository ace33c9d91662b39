// How do threads wait for each other and for asynchronous work? PTX bodies: shared memory, mbarriers, fences,
// named barriers, warp collectives, register reallocation, dependent launches. Section names are those of the
// PTX ISA.
#pragma once
#include <cstdint>

#include "device/planted/planted.hpp"

#define MOE_PTX __device__ __forceinline__

namespace moe::hopper {

/// Base of the CTA's dynamic shared memory, aligned to 1024 bytes (one atom of the 128-byte swizzle).
MOE_PTX std::uint8_t* dynamic_smem() {
  extern __shared__ __align__(1024) std::uint8_t moe_dynamic_smem[];
  return moe_dynamic_smem;
}

/// Generic address -> address in the shared window, as instructions want it.
MOE_PTX std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- for reports of the emulated SM: where a thread is in its work. No code on a card.
MOE_PTX void at_tile(int, int, int) {}
MOE_PTX void at_k_block(int, int) {}

// ---- mbarrier ("Parallel Synchronization and Communication Instructions: mbarrier")
MOE_PTX void mbar_init(std::uint64_t* bar, std::uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
/// Makes initialised mbarriers visible to the asynchronous proxy.
MOE_PTX void fence_mbar_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Orders ordinary shared-memory accesses before later asynchronous ones (TMA, bulk stores, wgmma operands).
MOE_PTX void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// The same for ordinary accesses of global memory, and of shared memory too: before a TMA or bulk load of
/// what this kernel has stored, on either side of the release and acquire that order them ("fence.proxy").
MOE_PTX void fence_proxy_async_global() { asm volatile("fence.proxy.async;" ::: "memory"); }
MOE_PTX void mbar_arrive(std::uint64_t* bar) {
  device::delay(1 + shared_address(bar));
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
/// Arrives and announces `bytes` of copies that this phase also waits for.
MOE_PTX void mbar_arrive_expect_tx(std::uint64_t* bar, std::uint32_t bytes) {
  device::delay(2 + shared_address(bar));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
               : "memory");
}
/// True when the phase of the given parity has completed; may wait a while before it says false.
MOE_PTX bool mbar_try_wait(std::uint64_t* bar, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(shared_address(bar)), "r"(parity)
      : "memory");
  return done != 0;
}
MOE_PTX void mbar_wait(std::uint64_t* bar, std::uint32_t parity) {
  device::delay(4 + parity + shared_address(bar));
  while (!mbar_try_wait(bar, parity)) {
  }
}

// ---- CTA and warp
/// bar.sync: waits until `threads` threads (a multiple of 32) have arrived at barrier `id` (0..15; 0 is
/// cta_sync's).
MOE_PTX void named_barrier(int id, int threads) {
  device::delay(6 + 16 * unsigned(id));
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
MOE_PTX void cta_sync() {
  device::delay(7);
  __syncthreads();
}
MOE_PTX void warp_sync() { __syncwarp(); }
/// setmaxnreg: executed by all warps of a warpgroup; R is a multiple of 8 in 24..256.
template <int R>
MOE_PTX void setmaxnreg_inc() {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
}
template <int R>
MOE_PTX void setmaxnreg_dec() {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
}
/// True in one lane of the (whole) warp; which one is the machine's choice.
MOE_PTX bool elect_one() {
  std::uint32_t elected;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(elected));
  return elected != 0;
}
MOE_PTX float shfl_xor(float value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }
MOE_PTX std::uint32_t shfl_xor(std::uint32_t value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
}
MOE_PTX std::uint32_t shfl_idx(std::uint32_t value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
/// Bit i is the predicate of lane i.
MOE_PTX std::uint32_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }
/// Largest and smallest value of the warp, in every lane ("redux.sync").
MOE_PTX std::uint32_t redux_max(std::uint32_t value) { return __reduce_max_sync(0xffffffffu, value); }
MOE_PTX std::uint32_t redux_min(std::uint32_t value) { return __reduce_min_sync(0xffffffffu, value); }
MOE_PTX int popc(std::uint32_t bits) { return __popc(bits); }

// ---- dependent launches ("griddepcontrol")
/// Waits until the kernels in front of this one have ended and their memory is visible.
MOE_PTX void grid_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  device::delay(10);
}
/// Lets the kernel behind this one start.
MOE_PTX void grid_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace moe::hopper
