// Where do the layer's kernels run without a card? The Machine of device/machine.hpp on the emulated SM: a
// launch runs at once, a graph is the recorded calls, time is unknown.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/emulator/emulator.hpp"
#include "device/machine.hpp"

namespace moe::device {

/// A kernel variant of an instrumented unit; the position in the table is the `variant` of Machine::launch.
struct EmulatedKernel {
  void (*run)(const void* params) = nullptr;  // null: this variant is not in the build
  std::size_t params_bytes = 0;
  const char* name = "";
};

class EmulatedMachine final : public Machine {
 public:
  /// `options.arithmetic` says what a tensor-core instruction computes; `sms` is what the layer sees.
  EmulatedMachine(std::span<const EmulatedKernel> kernels, emulator::Options options, int sms);

  std::string_view name() const override { return "emulated SM"; }
  int sms() const override { return sms_; }
  Address allocate(std::size_t bytes, BufferUse use, std::string name) override;
  /// Host memory that the caller keeps alive as an input, without a copy (sparse weights stay sparse).
  Address adopt(const void* p, std::size_t bytes, std::string name);
  void release_all() override;
  void upload(Address to, const void* from, std::size_t bytes) override;
  void download(void* to, Address from, std::size_t bytes) override;
  void fill(Address to, std::uint8_t byte, std::size_t bytes) override;
  using Machine::tensor_map;
  hopper::TensorMap tensor_map(Address base, std::uint64_t rows, std::uint64_t cols, std::uint64_t stride,
                               unsigned box_rows, hopper::Swizzle swizzle) override;
  void launch(int variant, const LaunchConfig& config, const void* params, std::size_t params_bytes) override;
  void synchronize() override { emulator_.synchronize(); }
  std::vector<std::string> take_reports() override;
  bool take_counts(Counts& counts) override;
  int record(const std::function<void()>& body) override;
  void replay(int graph) override;
  double time_of(const std::function<void()>& body) override;
  void flush_l2() override {}

  /// The next launches are done under these options (another seed, another mode).
  void set_options(const emulator::Options& options) { options_ = options; }
  emulator::GlobalMemory& memory() { return memory_; }
  /// Of the last launch, by CTA; empty unless its options asked for a trace.
  const std::vector<emulator::CtaTrace>& last_trace() const { return trace_; }

 private:
  std::span<const EmulatedKernel> kernels_;
  emulator::Options options_;
  int sms_;
  emulator::GlobalMemory memory_;
  emulator::Emulator emulator_{memory_};
  std::vector<std::string> reports_;
  Counts counts_;
  std::vector<emulator::CtaTrace> trace_;
  std::vector<std::function<void()>> graphs_;
};

}  // namespace moe::device
