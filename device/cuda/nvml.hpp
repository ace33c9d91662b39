// What does the management library say of a card: its SM clock now, its free memory? libnvidia-ml is opened
// at run time and is optional: where it, a function or the card is missing, there is no answer, and nothing
// else changes.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace moe::device {

/// One card of NVML. Copies share the library; every function may be called from any thread.
class ManagedCard {
 public:
  /// `bus_id` as cuDeviceGetPCIBusId spells it ("0000:1B:00.0"): NVML numbers cards differently from CUDA.
  explicit ManagedCard(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");

  bool found() const { return state_ != nullptr; }
  std::optional<double> sm_clock_hz() const;
  std::optional<double> free_bytes() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;  // null: no answers
};

}  // namespace moe::device
