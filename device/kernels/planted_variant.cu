// The card's code of one line of variants.hpp in a test build, chosen by -DMOE_VARIANT=<index>; with
// -DMOE_WGMMA_FAULT=<place in kWgmmaFaults> that fault is compiled into a grouped GEMM, so that ptxas' word
// on it is about nothing else.
#include "device/kernels/variant_kernel.cuh"
#include "device/planted/wgmma_faults.hpp"

namespace moe::device {
#if defined(MOE_WGMMA_FAULT)
using PlantedKernel = GemmOf<kVariants[MOE_VARIANT].gemm, kWgmmaFaults[MOE_WGMMA_FAULT]>;
#else
using PlantedKernel = KernelOf<MOE_VARIANT>;
#endif
}  // namespace moe::device

extern "C" __global__ void __launch_bounds__(moe::device::kVariants[MOE_VARIANT].threads, 1)
    moe_kernel(const __grid_constant__ moe::device::PlantedKernel::Params p) {
  moe::device::PlantedKernel::run(p);
}
