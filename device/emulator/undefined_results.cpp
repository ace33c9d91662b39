// What a card does not stop at and the host does not show, or the other way round: a division by zero, whose
// result is undefined there and whose signal would end the process here; a vector access that the compiler
// takes apart. Kernel units are compiled with -fsanitize=alignment and linked without its library, whose
// entry point is here.
#include <ucontext.h>

#include <csignal>

#include "device/emulator/engine.hpp"

namespace moe::device::emulator {
namespace {

struct TypeMismatch {  // as the compiler lays it out: place, type, alignment, kind of access
  struct {
    const char* file;
    std::uint32_t line, column;
  } place;
  const void* type;
  unsigned char log_alignment, kind;
};

struct sigaction before = {};  // what handled the signal until kernels began to run

/// A kernel's division faults at its own instruction, so that reporting and leaving the fiber is safe here.
void on_division(int signal, siginfo_t* info, void* context) {
  if (current && current->running) {
    const auto at = std::uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    report(*current, "division", pc_of(reinterpret_cast<const void*>(at + 1)), Who{current->running->id},
           " divides an integer by zero, or the least one by -1: the result is undefined");
    stop(*current);
  }
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  sigaction(signal, &before, nullptr);  // the instruction faults again, without us
}

}  // namespace

void catch_divisions() {
  struct sigaction now = {};
  now.sa_sigaction = on_division;
  now.sa_flags = SA_SIGINFO | SA_NODEFER;
  [[maybe_unused]] static const bool once = sigaction(SIGFPE, &now, &before) == 0;
}

}  // namespace moe::device::emulator

extern "C" {
__attribute__((noinline)) void __ubsan_handle_type_mismatch_v1(void* data, std::uintptr_t address) {
  using namespace moe::device::emulator;
  if (!current) return;
  const unsigned alignment = 1u << static_cast<const TypeMismatch*>(data)->log_alignment;
  report(*current, "misaligned-access", MOE_CALLER(), "access of a type that is aligned to ", alignment,
         " bytes at an address that is ", std::uint64_t(address % alignment), " modulo ", alignment);
  stop(*current);
}
}
