// The conformance kernels for the emulated SM (an instrumented unit).
#include "device/hopper/conformance/micro_kernels.cuh"

#include "device/hopper/conformance/conformance_kernels.hpp"

namespace moe::hopper::conformance {
namespace {

template <int Index>
void run(const void* params) {
  const Params p = *static_cast<const Params*>(params);
  run_kernel<Index>(p);
}

constexpr Run kRuns[kKernelCount] = {run<0>,  run<1>,  run<2>,  run<3>,  run<4>,  run<5>,  run<6>,  run<7>,
                                     run<8>,  run<9>,  run<10>, run<11>, run<12>, run<13>, run<14>, run<15>,
                                     run<16>, run<17>, run<18>, run<19>, run<20>, run<21>, run<22>};

}  // namespace

const Run* emulated_kernels() { return kRuns; }

}  // namespace moe::hopper::conformance
