// The conformance kernels for the card: nvcc -cubin -gencode arch=compute_90a,code=sm_90a -std=c++20
// -fmad=false.
#include "device/hopper/conformance/micro_kernels.cuh"

namespace conformance = moe::hopper::conformance;
using conformance::Params;

#define MOE_ENTRY(INDEX, NAME)                                                          \
  extern "C" __global__ void __launch_bounds__(conformance::kKernels[INDEX].threads, 1) \
      NAME(const __grid_constant__ Params p) {                                          \
    conformance::run_kernel<INDEX>(p);                                                  \
  }
MOE_ENTRY(0, wgmma_8)
MOE_ENTRY(1, wgmma_16)
MOE_ENTRY(2, wgmma_24)
MOE_ENTRY(3, wgmma_32)
MOE_ENTRY(4, wgmma_48)
MOE_ENTRY(5, wgmma_64)
MOE_ENTRY(6, wgmma_96)
MOE_ENTRY(7, wgmma_128)
MOE_ENTRY(8, wgmma_192)
MOE_ENTRY(9, wgmma_256)
MOE_ENTRY(10, tma_box)
MOE_ENTRY(11, bulk_copy)
MOE_ENTRY(12, mma)
MOE_ENTRY(13, convert)
MOE_ENTRY(14, exchange)
MOE_ENTRY(15, reduce)
MOE_ENTRY(16, redux)
MOE_ENTRY(17, wgmma_b64)
MOE_ENTRY(18, wgmma_b32)
MOE_ENTRY(19, wgmma_none)
MOE_ENTRY(20, phases)
MOE_ENTRY(21, grid_words)
MOE_ENTRY(22, registers)
