#include "device/emulated_executor.hpp"

#include <memory>

#include "device/emulator/emulated_machine.hpp"
#include "device/kernels/emulated_variants.hpp"
#include "device/session/moe_session.hpp"

namespace moe::device {

std::vector<KernelInfo> EmulatedExecutor::kernels() const { return {moeproof_kernel()}; }

Opened EmulatedExecutor::open(const Case& c) {
  return open_moe_session(c, [this] {
    return std::make_shared<EmulatedMachine>(emulated_variants(), options_.emulator, options_.sms);
  });
}

}  // namespace moe::device
