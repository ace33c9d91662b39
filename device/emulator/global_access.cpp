// Ordinary accesses: global memory, accumulator registers, and the hooks of the compiler's thread
// instrumentation. Kernel units are compiled with -fsanitize=thread and linked without its run-time library:
// every load and store calls one of the __tsan functions below, so a kernel needs no wrapper types to be
// seen.
#include <algorithm>
#include <cstring>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"

extern "C" const char __executable_start[], _end[];  // the program's own image, from the linker

namespace moe::device::emulator {

thread_local constinit Cta* current = nullptr;

namespace {

bool in_program(std::uintptr_t a, std::uint64_t bytes) {
  return a >= reinterpret_cast<std::uintptr_t>(__executable_start) &&
         a + bytes <= reinterpret_cast<std::uintptr_t>(_end);
}

/// Outside every region: constants of the program and the kernel's parameters may be read, nothing else.
void foreign_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, Access kind, Pc pc, const char* what) {
  if (kind == Access::read && in_program(a, bytes)) return;
  const Region* before = a ? c.memory->find(a - 1) : nullptr;
  for (std::uintptr_t back = 64; !before && back <= 65536 && back < a; back *= 2)
    before = c.memory->find(a - back);
  if (before)
    report(c, "global-bounds", pc, what, " of ", bytes, " bytes that begins ", std::uint64_t(a - before->hi),
           " bytes behind the end of '", before->name, "'");
  else
    report(c, "global-bounds", pc, what, " of ", bytes, " bytes outside every global allocation");
  if (!c.memory->mapped(a, bytes)) stop(c);
}

void find_region(Cta& c, std::uintptr_t a) {
  const Region* r = c.memory->find(a);
  if (!r) return;
  c.cached = {r->lo, r->hi, r, c.check && c.log_accesses && !r->read_only, c.check && !r->read_only};
}

void stack_access(Cta& c, Thread& t, std::uintptr_t a, std::uint32_t bytes, bool write, Pc pc) {
  for (Accumulators& r : t.accumulators) {
    if (a >= r.hi || a + bytes <= r.lo) continue;
    if (r.last_issue > t.waited) {
      report(c, "accumulator-in-flight", pc, Who{t.id}, write ? " writes" : " reads",
             " accumulator register ", std::int64_t(a - r.lo) / 4,
             " while a wgmma on it is in flight (no wgmma.wait_group covers it)");
      discard_accumulators(c, t);
    } else if (c.check && r.last_issue > r.named) {
      report(c, "accumulator-in-flight", pc, Who{t.id}, write ? " writes" : " reads",
             " accumulator register ", std::int64_t(a - r.lo) / 4,
             " of a wgmma whose wgmma.wait_group names other"
             " accumulators: the compiler may move this access in front of the wait");
      r.named = r.last_issue;
    }
    r.touched = pc;
  }
}

__attribute__((noinline, cold)) void misaligned(Cta& c, std::uintptr_t a, std::uint32_t bytes, bool write,
                                                Pc pc) {
  report(c, "misaligned-access", pc, write ? "store" : "load", " of ", bytes, " bytes at an address that is ",
         std::uint64_t(a & (bytes - 1)), " modulo ", bytes);
  stop(c);
}

/// Shared or global memory; apart from access(), which is short for the registers of a thread.
__attribute__((noinline)) void memory_access(Cta& c, void* p, std::uint32_t bytes, bool write, Pc pc) {
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  Thread::Window& w = c.running->window;
  w.lo = std::min(w.lo, a);
  w.hi = std::max(w.hi, a + bytes);
  w.progress |= write;
  if (a - reinterpret_cast<std::uintptr_t>(c.window) < kWindowBytes) {
    const std::uint32_t offset = shared_offset(c, p, bytes, pc, write ? "ordinary write" : "ordinary read");
    if (c.check) shared_access(c, offset, bytes, write, pc);
    if (c.options->wavefronts) c.wavefronts.record(c.running->warp, c.running->lane, pc, offset, bytes);
  } else {
    if (c.together && write) maybe_yield(c, 8);  // not between the news of a write and the write itself
    global_access(c, a, bytes, write ? Access::write : Access::read, pc, write ? "store" : "load");
    if (is_ordered(c, a)) order_access(c, a, bytes, write, Via::ordinary, pc);
    if (write && (c.together || c.polling)) return changed(c, a, bytes);
  }
  maybe_yield(c, 8);
}

inline void access(void* p, std::uint32_t bytes, bool write, bool aligned, const void* return_address) {
  Cta* c = current;
  if (!c) return;
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  ++c->accesses;
  if (aligned && (a & (bytes - 1))) misaligned(*c, a, bytes, write, pc_of(return_address));
  Thread& t = *c->running;
  if (++t.accesses >= t.next_look) look_for_spin(*c, t, pc_of(return_address));
  if (a - t.stack_bottom >= kStackBytes) return memory_access(*c, p, bytes, write, pc_of(return_address));
  if (a < t.mma_hi && a + bytes > t.mma_lo) wait_for_mma(*c, t, pc_of(return_address));
  if (a < t.accumulators_hi && a + bytes > t.accumulators_lo)
    stack_access(*c, t, a, bytes, write, pc_of(return_address));
}

}  // namespace

void global_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, Access kind, Pc pc, const char* what) {
  if (bytes == 0) return;
  const auto params = reinterpret_cast<std::uintptr_t>(c.launch->params);
  if (a - params < c.launch->params_bytes && a + bytes <= params + c.launch->params_bytes &&
      kind != Access::write)
    return;
  if (a < c.cached.lo || a >= c.cached.hi) {
    find_region(c, a);
    if (a < c.cached.lo || a >= c.cached.hi) return foreign_access(c, a, bytes, kind, pc, what);
  }
  if (a + bytes > c.cached.hi) {
    report(c, "global-bounds", pc, what, " of ", bytes, " bytes at byte ", std::uint64_t(a - c.cached.lo),
           " of '", c.cached.region->name, "', which has ", std::uint64_t(c.cached.hi - c.cached.lo));
    if (!c.memory->mapped(a, bytes)) stop(c);
    return;
  }
  if (kind == Access::write || kind == Access::atomic) {
    if (c.cached.region->read_only)
      report(c, "forbidden-store", pc, what, " to byte ", std::uint64_t(a - c.cached.lo), " of '",
             c.cached.region->name, "', which is an input");
    else if (c.memory->has_forbidden())
      if (const std::uintptr_t byte = c.memory->first_forbidden(a, bytes))
        report(c, "forbidden-store", pc, what, " to byte ", std::uint64_t(byte - c.cached.lo), " of '",
               c.cached.region->name, "', which no part of the result owns");
    if (c.options->trace && kind == Access::write) c.trace.stores.push_back({a, std::uint32_t(bytes)});
  }
  if (!c.cached.logged) return;
  c.log.record(kind, a, bytes, pc);
  if (c.launch->dependent && !observer(c.running->knows, c.running->id).knows(c.grid_component(), 1))
    c.early.record(kind, a, bytes, pc);
}

}  // namespace moe::device::emulator

#define MOE_HOOK extern "C" __attribute__((noinline)) void
#define MOE_HOOKS(n)                                                                \
  MOE_HOOK __tsan_read##n(void* p) {                                                \
    moe::device::emulator::access(p, n, false, true, __builtin_return_address(0));  \
  }                                                                                 \
  MOE_HOOK __tsan_write##n(void* p) {                                               \
    moe::device::emulator::access(p, n, true, true, __builtin_return_address(0));   \
  }                                                                                 \
  MOE_HOOK __tsan_unaligned_read##n(void* p) {                                      \
    moe::device::emulator::access(p, n, false, false, __builtin_return_address(0)); \
  }                                                                                 \
  MOE_HOOK __tsan_unaligned_write##n(void* p) {                                     \
    moe::device::emulator::access(p, n, true, false, __builtin_return_address(0));  \
  }
MOE_HOOKS(1)
MOE_HOOKS(2)
MOE_HOOKS(4)
MOE_HOOKS(8)
MOE_HOOKS(16)
MOE_HOOK __tsan_read_range(void* p, unsigned long n) {
  moe::device::emulator::access(p, std::uint32_t(n), false, false, __builtin_return_address(0));
}
MOE_HOOK __tsan_write_range(void* p, unsigned long n) {
  moe::device::emulator::access(p, std::uint32_t(n), true, false, __builtin_return_address(0));
}
extern "C" void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  moe::device::emulator::access(const_cast<void*>(from), std::uint32_t(n), false, false,
                                __builtin_return_address(0));
  moe::device::emulator::access(to, std::uint32_t(n), true, false, __builtin_return_address(0));
  return std::memcpy(to, from, n);
}
extern "C" void* __tsan_memset(void* to, int byte, unsigned long n) {
  moe::device::emulator::access(to, std::uint32_t(n), true, false, __builtin_return_address(0));
  return std::memset(to, byte, n);
}
MOE_HOOK __tsan_init() {}
MOE_HOOK __tsan_func_entry(void*) {}
MOE_HOOK __tsan_func_exit() {}
MOE_HOOK __tsan_vptr_update(void**, void*) {}
