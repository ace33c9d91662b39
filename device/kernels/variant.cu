// The card's code of one line of variants.hpp, chosen by -DMOE_VARIANT=<index>: a cubin with the one entry
// moe_kernel.
#include "device/kernels/variant_kernel.cuh"

extern "C" __global__ void __launch_bounds__(moe::device::kVariants[MOE_VARIANT].threads, 1)
    moe_kernel(const __grid_constant__ moe::device::KernelOf<MOE_VARIANT>::Params p) {
  moe::device::KernelOf<MOE_VARIANT>::run(p);
}
