// How does one CUDA thread stop in the middle of the kernel and another go on? Stacks and switches of
// Boost.Context, announced to AddressSanitizer where that is compiled in.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#  define MOE_FIBER_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define MOE_FIBER_ASAN 1
#  endif
#endif
#if defined(MOE_FIBER_ASAN)
#  include <sanitizer/common_interface_defs.h>
#endif

namespace moe::device::emulator {

#if defined(MOE_FIBER_ASAN)
inline constexpr std::size_t kStackBytes = std::size_t(256) << 10;
#else
inline constexpr std::size_t kStackBytes =
    std::size_t(576) << 10;  // 512 KB of local memory are legal; never touched, never there
#endif

/// A place where execution can continue. `stack` is its lowest byte; null for the host thread's own stack.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;
};

/// Must be the first thing after a switch and at a fiber's entry: tells the side that was left where it
/// stopped.
inline void arrived(boost::context::detail::transfer_t t, Fiber& self) {
  auto* from = static_cast<Fiber*>(t.data);
  from->context = t.fctx;
#if defined(MOE_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(self.fake_stack, &from->stack, &from->stack_bytes);
#endif
  (void)self;
}

/// Leaves `from`, continues `to`; returns when something switches to `from` again.
inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(MOE_FIBER_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
  arrived(boost::context::detail::jump_fcontext(to.context, &from), from);
}

/// Stacks with a guard page below each. The tops are staggered, so that equal frames of many threads do not
/// fall into the same few cache sets.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  void grow(int stacks);
  /// Before a new thread runs on stack `i`: frames of the last one that never returned have left red zones.
  void forget_frames(int i);
  std::byte* bottom(int i) const { return memory_ + std::size_t(i) * kStride + kPage; }
  std::byte* top(int i) const { return bottom(i) + kStackBytes - std::size_t(i * 5 % 61) * 64; }

 private:
  static constexpr std::size_t kPage = 4096, kStride = kStackBytes + kPage;
  std::byte* memory_ = nullptr;
  int stacks_ = 0;
};

}  // namespace moe::device::emulator
