// Instrumented unit: an mma.sync or a redux.sync that one lane does not execute.
#include "tests/device/kernels/mma_fault.hpp"

#include "device/hopper/hopper.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  __global__ void mma_without_a_lane(const __grid_constant__ MmaFaultParams p) {
    const std::uint32_t a[4] = {}, b[2] = {};
    float d[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    if (int(threadIdx.x) != p.missing_lane) hopper::mma_f16(d, a, b);
    for (int i = 0; i < 4; ++i) p.out[4 * threadIdx.x + i] = d[i];
  }
  __global__ void redux_without_a_lane(const __grid_constant__ MmaFaultParams p) {
    std::uint32_t value = threadIdx.x;
    if (int(threadIdx.x) != p.missing_lane) value = hopper::redux_max(value);
    p.out[threadIdx.x] = float(value);
  }
}

void run_redux_fault(const void* params) {
  redux_without_a_lane(*static_cast<const MmaFaultParams*>(params));
}
void run_mma_fault(const void* params) { mma_without_a_lane(*static_cast<const MmaFaultParams*>(params)); }

}  // namespace moe::test
