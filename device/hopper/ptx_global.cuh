// How do CTAs work on the same words of global memory, and how do they order the rest of it? PTX bodies of
// the accesses with a stated memory order ("Memory Consistency Model"). CTAs that wait for each other must
// all be on the card at once: LaunchConfig::cooperative. A grid barrier over a counter:
//   cta_sync();
//   if (threadIdx.x == 0) {
//     atomic_add_release(counter, 1);
//     while (ld_acquire(counter) < goal) {
//     }
//   }
//   cta_sync();
#pragma once
#include <cstdint>

#include "device/hopper/ptx_sync.cuh"

namespace moe::hopper {

/// A load that is done each time it is asked for (polling). Orders nothing by itself: fence_gpu() after it
/// does.
MOE_PTX uint4 ld_volatile(const uint4* p) {
  uint4 q;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w)
               : "l"(p)
               : "memory");
  return q;
}
/// What the thread does next is ordered behind all that was done before the release whose value this saw.
MOE_PTX std::uint32_t ld_acquire(const std::uint32_t* p) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
/// What the thread did or saw before is ordered in front of whoever acquires this value.
MOE_PTX void st_release(std::uint32_t* p, std::uint32_t value) {
  device::delay(11 + unsigned(reinterpret_cast<std::uint64_t>(p)));
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
/// __threadfence(): makes relaxed accesses (atomic_add after it, ld_volatile before it) release and acquire.
MOE_PTX void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/// Reductions at device scope. They return nothing: what a kernel computes may not depend on the order of
/// CTAs.
MOE_PTX void atomic_add(std::uint32_t* p, std::uint32_t value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
MOE_PTX void atomic_add_release(std::uint32_t* p, std::uint32_t value) {
  device::delay(11 + unsigned(reinterpret_cast<std::uint64_t>(p)));
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
MOE_PTX void atomic_max(std::uint32_t* p, std::uint32_t value) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

}  // namespace moe::hopper
