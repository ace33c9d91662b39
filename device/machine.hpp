// What does the layer code need from the machine that runs its kernels? Memory, copies, tensor maps,
// launches, a graph. Two bodies: the card (device/cuda, driver API) and the emulated SM (device/emulator). A
// kernel takes one parameter struct by value; the same bytes serve both machines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/hopper/tensor_map.hpp"
#include "fixtures/problem/counts.hpp"

namespace moe::device {

using Address = std::uint64_t;  // on the card: CUdeviceptr; emulated: the host address
enum class BufferUse { input, output, workspace };

struct LaunchConfig {
  unsigned grid = 1, block = 1;  // one-dimensional
  std::size_t shared_bytes = 0;  // dynamic
  bool dependent = false;        // may start before the kernel in front of it ends (griddepcontrol)
  bool cooperative = false;      // all CTAs run at once and may wait for each other
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::string_view name() const = 0;  // "NVIDIA H200", "emulated SM"
  virtual int sms() const = 0;

  /// Memory with guard bytes on both sides. Outputs and workspaces start poisoned (0xFF bytes; sessions
  /// give integer outputs the poison of their type).
  virtual Address allocate(std::size_t bytes, BufferUse use, std::string name) = 0;
  virtual void release_all() = 0;
  virtual void upload(Address to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, Address from, std::size_t bytes) = 0;
  virtual void fill(Address to, std::uint8_t byte, std::size_t bytes) = 0;

  /// Bytes [rows, cols] with `stride` bytes a row; boxes of box_rows x row_bytes(swizzle) bytes land with
  /// that swizzle; what lies outside rows/cols arrives as zero.
  virtual hopper::TensorMap tensor_map(Address base, std::uint64_t rows, std::uint64_t cols,
                                       std::uint64_t stride, unsigned box_rows, hopper::Swizzle swizzle) = 0;
  /// With the 128-byte swizzle.
  hopper::TensorMap tensor_map(Address base, std::uint64_t rows, std::uint64_t cols, std::uint64_t stride,
                               unsigned box_rows) {
    return tensor_map(base, rows, cols, stride, box_rows, hopper::Swizzle::b128);
  }

  /// Launches variant number `variant` of device/kernels/variants.hpp with its parameter struct.
  virtual void launch(int variant, const LaunchConfig& config, const void* params,
                      std::size_t params_bytes) = 0;
  /// Starts another kernel on a second stream, which runs beside the next launches for about a millisecond;
  /// synchronize waits for it too. Nothing where there is one stream (the emulated SM: its schedules stand
  /// for that).
  virtual void crowd() {}
  /// Waits for all launches; throws MachineFailure on a device error.
  virtual void synchronize() = 0;

  /// Findings since the last call: protocol faults, damaged guards, changed inputs. Empty = clean.
  virtual std::vector<std::string> take_reports() = 0;
  /// Counts of the launches since the last call; false where the machine cannot count.
  virtual bool take_counts(Counts& counts) = 0;

  /// Records what `body` launches once and returns a handle; replay runs it. On the emulated SM a replay runs
  /// the body.
  virtual int record(const std::function<void()>& body) = 0;
  virtual void replay(int graph) = 0;
  /// Device seconds of one call of `body` (events around it), or a negative number where the machine cannot
  /// time.
  virtual double time_of(const std::function<void()>& body) = 0;
  /// Reads the SM clock in Hz (0 = not now), from any thread; empty where the machine does not say.
  virtual std::function<double()> clock_reader() { return {}; }
  /// Makes sure that no input or weight is in L2.
  virtual void flush_l2() = 0;
};

/// Typed launch: the parameter struct's size is checked against the kernel's own parameter list by the
/// machine.
template <class Params>
void launch(Machine& machine, int variant, const LaunchConfig& config, const Params& params) {
  machine.launch(variant, config, &params, sizeof(Params));
}

}  // namespace moe::device
