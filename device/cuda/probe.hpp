// Is there a usable NVIDIA driver on this machine, and which cards does it show? Works without the CUDA
// headers and without a driver, so that `doctor` can tell no driver from an old one.
#pragma once
#include <string>
#include <vector>

namespace moe::device {

struct GpuDescription {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int sms = 0;
  std::size_t memory_bytes = 0, l2_bytes = 0;
  std::string bus_id;  // "0000:1B:00.0"
};

struct DriverProbe {
  enum class State { no_library, library_unusable, no_device, too_old, ready } state = State::no_library;
  std::string detail;      // one line, for a person
  int driver_version = 0;  // 13000 = CUDA 13.0
  std::vector<GpuDescription> gpus;
};

/// The oldest driver whose API the `cuda` executor needs: CUDA 12.4 (cuFuncGetParamInfo).
inline constexpr int kOldestDriver = 12040;

/// Opens `library` (libcuda.so.1 unless a test says otherwise) and asks; never throws.
DriverProbe probe_driver(const std::string& library = "libcuda.so.1");

}  // namespace moe::device
