// The arithmetic kernels for the card: nvcc -cubin -gencode arch=compute_90a,code=sm_90a -std=c++20
// -fmad=false.
#include "device/hopper/conformance/arithmetic_kernels.cuh"

namespace conformance = moe::hopper::conformance;

#define MOE_ENTRY(INDEX, NAME)                                                     \
  extern "C" __global__ void __launch_bounds__(conformance::kArithmeticThreads, 1) \
      NAME(const __grid_constant__ conformance::ArithmeticParams p) {              \
    conformance::run_arithmetic<INDEX>(p);                                         \
  }
MOE_ENTRY(0, ss_e4m3_e4m3_f32)
MOE_ENTRY(1, ss_e4m3_e5m2_f32)
MOE_ENTRY(2, ss_e5m2_e4m3_f32)
MOE_ENTRY(3, ss_e5m2_e5m2_f32)
MOE_ENTRY(4, ss_e4m3_e4m3_f16)
MOE_ENTRY(5, ss_e4m3_e5m2_f16)
MOE_ENTRY(6, ss_e5m2_e4m3_f16)
MOE_ENTRY(7, ss_e5m2_e5m2_f16)
MOE_ENTRY(8, rs_e4m3_e4m3_f32)
MOE_ENTRY(9, rs_e4m3_e5m2_f32)
MOE_ENTRY(10, rs_e5m2_e4m3_f32)
MOE_ENTRY(11, rs_e5m2_e5m2_f32)
MOE_ENTRY(12, rs_e4m3_e4m3_f16)
MOE_ENTRY(13, rs_e4m3_e5m2_f16)
MOE_ENTRY(14, rs_e5m2_e4m3_f16)
MOE_ENTRY(15, rs_e5m2_e5m2_f16)
MOE_ENTRY(16, mma_e4m3_e4m3_f32)
MOE_ENTRY(17, mma_e4m3_e5m2_f32)
MOE_ENTRY(18, mma_e5m2_e4m3_f32)
MOE_ENTRY(19, mma_e5m2_e5m2_f32)
MOE_ENTRY(20, mma_e4m3_e4m3_f16)
MOE_ENTRY(21, mma_e4m3_e5m2_f16)
MOE_ENTRY(22, mma_e5m2_e4m3_f16)
MOE_ENTRY(23, mma_e5m2_e5m2_f16)
MOE_ENTRY(24, mma_f16_f16_f32)
MOE_ENTRY(25, mma_f16_f16_f16)
