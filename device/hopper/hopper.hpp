// Which Hopper instructions may a kernel use? The functions of namespace moe::hopper: asynchronous copies,
// mbarriers, wgmma and mma.sync, warp and CTA collectives, arithmetic with an explicit rounding. Each has two
// bodies: PTX for nvcc (ptx_*.cuh) and the emulated SM for the host compiler (emulated*.hpp). This is the
// only place that tells the two apart; a kernel contains no #if. README.md lists the rules that a kernel must
// keep to run on both.
//
//   #include "device/hopper/hopper.hpp"
//   namespace moe { MOE_KERNEL_NAMESPACE {
//   template <class Config> __global__ void my_kernel(const __grid_constant__ MyParams p) { ... }
//   }}
#pragma once
#include <cstdint>

#include "device/hopper/tensor_map.hpp"
#include "fixtures/problem/host_device.hpp"
#include "fixtures/problem/number_formats.hpp"

#if defined(__CUDACC__)
#  define MOE_KERNEL_NAMESPACE inline namespace ptx
#  include "device/hopper/ptx_copy.cuh"
#  include "device/hopper/ptx_global.cuh"
#  include "device/hopper/ptx_math.cuh"
#  include "device/hopper/ptx_sync.cuh"
#  include "device/hopper/ptx_wgmma.cuh"
#else
#  if defined(MOE_PLANTED)  // never merged with the copies of a release build by the linker
#    define MOE_KERNEL_NAMESPACE inline namespace emulated_planted
#  else
#    define MOE_KERNEL_NAMESPACE inline namespace emulated
#  endif
#  include "device/hopper/emulated.hpp"
#  include "device/hopper/emulated_math.hpp"
#endif
