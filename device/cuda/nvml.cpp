#include "device/cuda/nvml.hpp"

#include <dlfcn.h>

namespace moe::device {
namespace {

// The five functions that are asked, declared here so that no header is needed (NVML API reference:
// enumerations nvmlReturn_t and nvmlClockType_t, struct nvmlMemory_t).
using Result = int;
using Handle = void*;
constexpr Result kSuccess = 0;
constexpr int kClockSm = 1;
struct MemoryInfo {
  unsigned long long total, free, used;
};

template <class F>
bool load(F& slot, void* library, const char* name) {
  slot = reinterpret_cast<F>(dlsym(library, name));
  return slot != nullptr;
}

}  // namespace

struct ManagedCard::State {
  void* library = nullptr;
  Handle card = nullptr;
  bool started = false;
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*handle_by_bus_id)(const char*, Handle*) = nullptr;
  Result (*clock_info)(Handle, int, unsigned*) = nullptr;
  Result (*memory_info)(Handle, void*) = nullptr;  // a MemoryInfo; its type has no name outside of here

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (started) shutdown();
    if (library) dlclose(library);
  }

  /// False where anything is missing.
  bool open(const std::string& name, const std::string& bus_id) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || !load(init, library, "nvmlInit_v2") ||
        !load(shutdown, library, "nvmlShutdown") ||
        !load(handle_by_bus_id, library, "nvmlDeviceGetHandleByPciBusId_v2") ||
        !load(clock_info, library, "nvmlDeviceGetClockInfo") ||
        !load(memory_info, library, "nvmlDeviceGetMemoryInfo"))
      return false;
    started = init() == kSuccess;
    return started && handle_by_bus_id(bus_id.c_str(), &card) == kSuccess;
  }
};

ManagedCard::ManagedCard(const std::string& bus_id, const std::string& library) {
  auto state = std::make_shared<State>();
  if (!bus_id.empty() && state->open(library, bus_id)) state_ = std::move(state);
}

std::optional<double> ManagedCard::sm_clock_hz() const {
  unsigned mhz = 0;
  if (!state_ || state_->clock_info(state_->card, kClockSm, &mhz) != kSuccess || mhz == 0)
    return std::nullopt;
  return mhz * 1e6;
}

std::optional<double> ManagedCard::free_bytes() const {
  MemoryInfo info{};
  if (!state_ || state_->memory_info(state_->card, &info) != kSuccess) return std::nullopt;
  return double(info.free);
}

}  // namespace moe::device
