#include "device/cuda/probe.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace moe::device {
namespace {

// The driver functions that a probe needs, declared here so that it builds without cuda.h (values: CUDA
// driver API).
using Int = int;
constexpr Int kAttributeSms = 16, kAttributeL2 = 38, kAttributeMajor = 75, kAttributeMinor = 76,
              kErrorNoDevice = 100;

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

GpuDescription describe(void* library, int ordinal) {
  GpuDescription gpu;
  gpu.ordinal = ordinal;
  Int device = 0;
  const auto get = symbol<Int (*)(Int*, Int)>(library, "cuDeviceGet");
  const auto get_name = symbol<Int (*)(char*, Int, Int)>(library, "cuDeviceGetName");
  const auto attribute = symbol<Int (*)(Int*, Int, Int)>(library, "cuDeviceGetAttribute");
  const auto memory = symbol<Int (*)(std::size_t*, Int)>(library, "cuDeviceTotalMem_v2");
  const auto bus_id = symbol<Int (*)(char*, Int, Int)>(library, "cuDeviceGetPCIBusId");
  if (!get || !get_name || !attribute || !memory || get(&device, ordinal) != 0) return gpu;
  char name[256] = {};
  if (get_name(name, sizeof name - 1, device) == 0) gpu.name = name;
  if (char id[32] = {}; bus_id && bus_id(id, sizeof id - 1, device) == 0) gpu.bus_id = id;
  Int l2 = 0;
  attribute(&gpu.sms, kAttributeSms, device);
  attribute(&gpu.major, kAttributeMajor, device);
  attribute(&gpu.minor, kAttributeMinor, device);
  attribute(&l2, kAttributeL2, device);
  gpu.l2_bytes = std::size_t(l2);
  memory(&gpu.memory_bytes, device);
  return gpu;
}

}  // namespace

DriverProbe probe_driver(const std::string& library_name) {
  DriverProbe probe;
  void* library = dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    probe.detail = fmt::format("no NVIDIA driver: {} is not on this machine", library_name);
    return probe;
  }
  const auto init = symbol<Int (*)(unsigned)>(library, "cuInit");
  const auto version = symbol<Int (*)(Int*)>(library, "cuDriverGetVersion");
  const auto count_devices = symbol<Int (*)(Int*)>(library, "cuDeviceGetCount");
  if (!init || !version || !count_devices || version(&probe.driver_version) != 0) {
    probe.state = DriverProbe::State::library_unusable;
    probe.detail = fmt::format("{} is there but is not a CUDA driver", library_name);
    return probe;
  }
  const std::string cuda =
      fmt::format("CUDA {}.{}", probe.driver_version / 1000, probe.driver_version % 1000 / 10);
  const Int started = init(0);
  Int devices = 0;
  if (started == kErrorNoDevice || (started == 0 && (count_devices(&devices) != 0 || devices == 0))) {
    probe.state = DriverProbe::State::no_device;
    probe.detail = fmt::format("the driver ({}) shows no GPU", cuda);
  } else if (started != 0) {
    probe.state = DriverProbe::State::library_unusable;
    probe.detail = fmt::format("the driver ({}) does not start: cuInit gives error {}", cuda, started);
  } else {
    for (Int i = 0; i < devices; ++i) probe.gpus.push_back(describe(library, i));
    const bool old = probe.driver_version < kOldestDriver;
    probe.state = old ? DriverProbe::State::too_old : DriverProbe::State::ready;
    probe.detail = old ? fmt::format("the driver is too old: it speaks {}, CUDA {}.{} or newer is needed",
                                     cuda, kOldestDriver / 1000, kOldestDriver % 1000 / 10)
                       : fmt::format("driver for {}", cuda);
  }
  return probe;
}

}  // namespace moe::device
