// Is this fault in force? The one door of planted faults and delays, for kernels and for host code. In a
// release build the answer is a constant, so that no machine code changes (tests/lint/release_code.py
// compares it with the sources from which every hook is stripped); a test build (MOE_PLANTED) reads a
// variable: on the card words in constant memory (device/hopper/ptx_planted.cuh), elsewhere the program's
// (tests/planted).
//
// The forms that the lint test strips, so no others:
//   if (planted(Fault::x)) statement             gone
//   if (!planted(Fault::x) ...) statement        statement
//   a && !planted(Fault::x), a || planted(..)    a
//   planted(Fault::x, wrong, right)              (right)
//   the same with C.fault in front, which is a template argument: for faults between a wgmma's fence and its
//   wait, where a branch would make ptxas serialise; delay(Site::x);                              gone
#pragma once
#include "device/planted/faults.hpp"
#include "fixtures/problem/host_device.hpp"

#if defined(MOE_PLANTED) && defined(__CUDACC__)
#  include "device/hopper/ptx_planted.cuh"
#elif defined(MOE_PLANTED)
namespace moe::hopper::engine {
/// The fault in force; does not change while a kernel runs.
__attribute__((const)) int planted_fault() noexcept;
}  // namespace moe::hopper::engine
#endif

namespace moe::device {

#if defined(MOE_PLANTED)
inline namespace with_faults {
#  if defined(__CUDACC__)
__device__ __forceinline__ bool planted(Fault f) { return hopper::planted_fault() == int(f); }
#    define MOE_PLANTED_HD __device__ __forceinline__
#  else
MOE_HD bool planted(Fault f) { return hopper::engine::planted_fault() == int(f); }
#    define MOE_PLANTED_HD MOE_HD
#  endif
template <class T>
MOE_PLANTED_HD T planted(Fault f, T wrong, T right) {
  return planted(f) ? wrong : right;
}
/// At a synchronisation site of the card (device/hopper/ptx_*.cuh): a pause that a seed and `place` choose.
/// The emulated SM needs none, its scheduler chooses.
MOE_PLANTED_HD void delay(unsigned place) {
#  if defined(__CUDACC__)
  hopper::planted_delay(place);
#  endif
}
#  undef MOE_PLANTED_HD
}  // namespace with_faults
#else
MOE_HD constexpr void delay(unsigned) {}
MOE_HD constexpr bool planted(Fault) { return false; }
template <class T>
MOE_HD constexpr T planted(Fault, T, T right) {
  return right;
}
#endif

/// Of a template argument.
MOE_HD constexpr bool planted(Fault in_force, Fault f) { return in_force == f; }
template <class T>
MOE_HD constexpr T planted(Fault in_force, Fault f, T wrong, T right) {
  return in_force == f ? wrong : right;
}

}  // namespace moe::device
