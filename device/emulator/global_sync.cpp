// Instructions by which CTAs and kernels wait for each other in global memory: strong loads, stores and
// reductions, fences, dependent launches.
#include <algorithm>
#include <cstring>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::hopper::engine {
using namespace moe::device::emulator;

namespace {

std::uintptr_t aligned_address(Cta& c, const void* p, std::uint32_t bytes, const char* what, Pc pc) {
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  if (a % bytes == 0) return a;
  report(c, "misaligned-access", pc, what, " of ", bytes, " bytes at an address that is ",
         std::uint64_t(a % bytes), " modulo ", bytes);
  stop(c);
}

/// A load whose value may come from another CTA: always a place to switch.
std::uintptr_t strong_load(Cta& c, const void* p, std::uint32_t bytes, Pc pc) {
  const std::uintptr_t a = aligned_address(c, p, bytes, "load", pc);
  global_access(c, a, bytes, Access::poll, pc, "polling load");
  poll(c, a, bytes, pc);
  if (is_ordered(c, a)) order_access(c, a, bytes, false, Via::strong, pc);
  return a;
}

std::uintptr_t strong_update(Cta& c, void* p, const char* what, Pc pc) {
  maybe_yield(c);
  const std::uintptr_t a = aligned_address(c, p, 4, what, pc);
  global_access(c, a, 4, Access::atomic, pc, what);
  if (!is_ordered(c, a)) return a;
  order_access(c, a, 4, true, Via::strong, pc);
  keep_earlier(c, a);
  return a;
}

}  // namespace

void ld_volatile(const void* p, void* value) {
  Cta& c = *current;
  const std::uintptr_t a = strong_load(c, p, 16, MOE_CALLER());
  relaxed_read_words(c, a, 16);
  std::memcpy(value, p, 16);
}

std::uint32_t ld_acquire(const void* p) {
  Cta& c = *current;
  const std::uintptr_t a = strong_load(c, p, 4, MOE_CALLER());
  if (const std::uint32_t* earlier = acquire_earlier(c, a)) return *earlier;
  acquire_words(c, a, 4);
  return __atomic_load_n(static_cast<const std::uint32_t*>(p), __ATOMIC_RELAXED);
}

void st_release(void* p, std::uint32_t value) {
  Cta& c = *current;
  const std::uintptr_t a = strong_update(c, p, "release store", MOE_CALLER());
  release_word(c, a, false);
  __atomic_store_n(static_cast<std::uint32_t*>(p), value, __ATOMIC_RELAXED);
  updated(c, a, 4);
}

void red(void* p, std::uint32_t value, Red what) {
  Cta& c = *current;
  const std::uintptr_t a = strong_update(c, p, "reduction", MOE_CALLER());
  if (what == Red::add_release)
    release_word(c, a, true);
  else
    relaxed_red(c, a);
  auto* target = static_cast<std::uint32_t*>(p);
  if (what != Red::max) {
    __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
  } else {
    std::uint32_t old = __atomic_load_n(target, __ATOMIC_RELAXED);
    while (old < value &&
           !__atomic_compare_exchange_n(target, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }
  updated(c, a, 4);
}

void fence_gpu() {
  Cta& c = *current;
  device::emulator::fence_gpu(c);
  maybe_yield(c);
}

void grid_wait() {
  Cta& c = *current;
  Thread& t = *c.running;
  c.waited_for_grid = true;
  if (c.check) {
    t.knows.base = c.snapshots.join(t.knows.base, c.after_grid_wait);
  }
  maybe_yield(c);
}

void grid_launch_dependents() {
  Cta& c = *current;
  if (c.check) {  // the first of the CTA's threads counts, and any of them may be that
    c.allowed_next = true;
    c.allowed_early |= !observer(c.running->knows, c.running->id).knows(c.grid_component(), 1);
  }
  maybe_yield(c);
}

}  // namespace moe::hopper::engine
