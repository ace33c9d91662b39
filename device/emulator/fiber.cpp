#include "device/emulator/fiber.hpp"

#include <sys/mman.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

#if defined(MOE_FIBER_ASAN)
#  include <sanitizer/asan_interface.h>
#endif

namespace moe::device::emulator {

namespace {
constexpr std::size_t kReserved = std::size_t(sm90::kMaxThreadsPerCta) * (kStackBytes + 4096);
}

StackPool::~StackPool() {
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
#if defined(MOE_FIBER_ASAN)
  for (int i = 0; i < stacks; ++i)
    __asan_unpoison_memory_region(bottom(i), kStackBytes);  // frames that never returned
#endif
}

}  // namespace moe::device::emulator
