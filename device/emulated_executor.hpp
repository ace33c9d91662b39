// How does the harness run the built-in kernels without a card? The Executor "emulated": the kernels' own
// source on the emulated SM, with every instruction counted and every protocol rule checked. It cannot time.
#pragma once
#include "device/emulator/emulator.hpp"
#include "device/executor.hpp"

namespace moe::device {

struct EmulatedOptions {
  emulator::Options emulator;  // seed, order of events, checks, host threads, arithmetic of one instruction
  int sms = 132;               // SMs that the layer sees: CTAs of a persistent grid (H200 has 132)
};

class EmulatedExecutor final : public Executor {
 public:
  /// `options.emulator.arithmetic` is the caller's: reference's exact model, or a plain one in tests.
  explicit EmulatedExecutor(EmulatedOptions options) : options_(options) {}
  std::string_view name() const override { return "emulated"; }
  std::vector<KernelInfo> kernels() const override;
  /// Every session has its own machine; sessions may run at the same time.
  Opened open(const Case& c) override;

 private:
  EmulatedOptions options_;
};

}  // namespace moe::device
