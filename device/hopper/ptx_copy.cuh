// How do bytes travel between global and shared memory without passing through registers? PTX bodies of TMA
// tensor loads and bulk copies ("Data Movement and Conversion Instructions: Asynchronous copy").
#pragma once
#include <cstdint>

#include "device/hopper/ptx_sync.cuh"
#include "device/hopper/tensor_map.hpp"

namespace moe::hopper {

/// A cache policy for L2, made by createpolicy.
struct L2Hint {
  std::uint64_t policy;
};
/// For bytes that are read once: they leave L2 first.
MOE_PTX L2Hint l2_evict_first() {
  L2Hint hint;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(hint.policy));
  return hint;
}

MOE_PTX void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Box at column x (bytes) and row y of the map's matrix -> `dst`; completes box bytes on `bar`. One thread
/// issues it.
MOE_PTX void tma_load_2d(void* dst, const TensorMap* map, std::uint64_t* bar, int x, int y) {
  device::delay(8 + shared_address(dst));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(shared_address(dst)),
      "l"(map), "r"(shared_address(bar)), "r"(x), "r"(y)
      : "memory");
}
MOE_PTX void tma_load_2d(void* dst, const TensorMap* map, std::uint64_t* bar, int x, int y, L2Hint hint) {
  device::delay(8 + shared_address(dst));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(dst)),
      "l"(map), "r"(shared_address(bar)), "r"(x), "r"(y), "l"(hint.policy)
      : "memory");
}
/// `bytes` contiguous bytes, global -> shared; both addresses and the size are multiples of 16.
MOE_PTX void bulk_load(void* dst, const void* src, std::uint32_t bytes, std::uint64_t* bar) {
  device::delay(8 + shared_address(dst));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(dst)),
      "l"(src), "r"(bytes), "r"(shared_address(bar))
      : "memory");
}
MOE_PTX void bulk_load(void* dst, const void* src, std::uint32_t bytes, std::uint64_t* bar, L2Hint hint) {
  device::delay(8 + shared_address(dst));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(dst)),
      "l"(src), "r"(bytes), "r"(shared_address(bar)), "l"(hint.policy)
      : "memory");
}
/// `bytes` contiguous bytes, shared -> global; part of the thread's next bulk group.
MOE_PTX void bulk_store(void* dst, const void* src, std::uint32_t bytes) {
  device::delay(9 + shared_address(src));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
               "r"(shared_address(src)), "r"(bytes)
               : "memory");
}
MOE_PTX void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until all but the last N bulk groups have read their shared memory.
template <int N>
MOE_PTX void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
/// Waits until all but the last N bulk groups are complete.
template <int N>
MOE_PTX void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace moe::hopper
