#include <vector>

#include "device/calibrate/calibrate_kernels.hpp"
#include "device/cuda/calibration_machine.hpp"
#include "device/cuda/cuda_machine.hpp"
#include "fixtures/files/embedded.hpp"

namespace moe {
std::span<const EmbeddedFile> calibrate_cubins();  // made by the build
}

namespace moe::device {
namespace {

std::string_view code_of(std::string_view unit) {
  for (const EmbeddedFile& file : calibrate_cubins())
    if (file.name.ends_with(std::string(unit) + ".cubin")) return file.bytes;
  return {};
}

/// Each kernel by its place in the table; kernels of a unit share its bytes.
std::span<const CubinImage> calibration_images() {
  static const std::vector<CubinImage> images = [] {
    std::vector<CubinImage> all;
    for (std::size_t i = 0; i < kCalibrateKernels.size(); ++i)
      all.push_back({int(i), kCalibrateKernels[i].name, code_of(kCalibrateKernels[i].unit)});
    return all;
  }();
  return images;
}

}  // namespace

std::unique_ptr<Machine> open_calibration_machine(int ordinal) {
  return std::make_unique<CudaMachine>(ordinal, calibration_images());
}

}  // namespace moe::device
