// Instrumented unit: CTAs that keep to their own bytes, and three that do not.
#include "device/hopper/hopper.hpp"
#include "tests/device/kernels/slices_params.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  template <SlicesFault F>
  __global__ void slices_kernel(const __grid_constant__ SlicesParams p) {
    const int first = int(blockIdx.x) * p.bytes;
    const int bytes = p.bytes + (F == SlicesFault::overlapping_write && blockIdx.x == 2 ? 1 : 0);
    for (int i = int(threadIdx.x); i < bytes; i += int(blockDim.x))
      p.out[first + i] = std::uint8_t(p.in[first + i] + 1);
    hopper::atomic_add(p.counter, 1);
    if (threadIdx.x != 0) return;
    std::uint8_t seen = 0;
    if (F == SlicesFault::reads_neighbour && blockIdx.x == 3) seen = p.out[first - 1];
    if (F == SlicesFault::plain_read_of_counter && blockIdx.x == 1) seen = std::uint8_t(*p.counter);
    p.result[blockIdx.x] = seen;
  }
}

namespace {
template <int F>
void run(const void* params) {
  slices_kernel<SlicesFault(F)>(*static_cast<const SlicesParams*>(params));
}
}  // namespace

SlicesRun slices(SlicesFault fault) {
  constexpr SlicesRun kRuns[] = {run<0>, run<1>, run<2>, run<3>};
  return kRuns[int(fault)];
}

}  // namespace moe::test
