#include "device/emulator/fiber.hpp"

#include <sys/mman.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

#if defined(MOE_FIBER_ASAN)
#  include <sanitizer/asan_interface.h>

// A second, "fake" stack a fiber would be kept for every thread that is left for good: gigabytes.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }
#endif

namespace moe::device::emulator {

namespace {
constexpr std::size_t kReserved = std::size_t(sm90::kMaxThreadsPerCta) * (kStackBytes + 4096);
}

StackPool::~StackPool() {
  for (int i = 0; i < stacks_; ++i) forget_frames(i);  // else what is mapped here next inherits red zones
  if (memory_) munmap(memory_, kReserved);
}

void StackPool::grow(int stacks) {
  if (!memory_) {
    void* p =
        mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw MachineFailure("emulated SM: no address space for thread stacks");
    madvise(p, kReserved, MADV_NOHUGEPAGE);
    memory_ = static_cast<std::byte*>(p);
  }
  for (; stacks_ < stacks; ++stacks_) mprotect(bottom(stacks_) - kPage, kPage, PROT_NONE);
}

void StackPool::forget_frames(int i) {
#if defined(MOE_FIBER_ASAN)
  __asan_unpoison_memory_region(bottom(i), kStackBytes);
#else
  (void)i;
#endif
}

}  // namespace moe::device::emulator
