// Stands in for cuda_executor.cpp and cuda_calibration.cpp where no CUDA compiler was found at build time.
#include "device/cuda/calibration_machine.hpp"
#include "device/cuda/cuda_executor.hpp"
#ifndef MOE_HAVE_CUDA
#  include "fixtures/problem/errors.hpp"

namespace moe::device {

bool cuda_was_built() { return false; }

std::unique_ptr<Executor> make_cuda_executor(int) {
  throw MachineFailure(
      "this binary was built without a CUDA compiler and has no cuda executor; run ci/setup and build again");
}

std::unique_ptr<Machine> open_calibration_machine(int) {
  throw MachineFailure(
      "this binary was built without a CUDA compiler and cannot measure a card; run ci/setup and build again");
}

}  // namespace moe::device
#endif
