// Instrumented unit: the pipeline with each planted fault.
#include "tests/device/kernels/pipeline.cuh"

namespace moe::test {
namespace {

template <int F>
void run(const void* params) {
  pipeline_kernel<Fault(F)>(*static_cast<const PipelineParams*>(params));
}

template <int First>
PipelineRun find(int fault) {
  if constexpr (First < int(Fault::count)) return fault == First ? &run<First> : find<First + 1>(fault);
  return nullptr;
}

}  // namespace

PipelineRun pipeline(Fault fault) { return find<0>(int(fault)); }

}  // namespace moe::test
