// The card as a Machine: driver API, one stream, guarded buffers, graphs, event times. One object a device
// and thread.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cubin_image.hpp"
#include "device/machine.hpp"

namespace moe::device {

class CudaMachine : public Machine {
 public:
  /// Opens device `ordinal`; throws MachineFailure when there is no driver, no such device, or it is not
  /// sm_90.
  explicit CudaMachine(int ordinal, std::span<const CubinImage> images = cubin_images());
  ~CudaMachine() override;
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  std::string_view name() const override { return device_name_; }
  int sms() const override { return std::min(sms_, sms_limit_); }
  std::size_t l2_bytes() const { return l2_bytes_; }
  int driver_version() const { return driver_version_; }

  Address allocate(std::size_t bytes, BufferUse use, std::string name) override;
  void release_all() override;
  void upload(Address to, const void* from, std::size_t bytes) override;
  void download(void* to, Address from, std::size_t bytes) override;
  void fill(Address to, std::uint8_t byte, std::size_t bytes) override;
  using Machine::tensor_map;
  hopper::TensorMap tensor_map(Address base, std::uint64_t rows, std::uint64_t cols, std::uint64_t stride,
                               unsigned box_rows, hopper::Swizzle swizzle) override;
  void launch(int variant, const LaunchConfig& config, const void* params,
              std::size_t params_bytes) override {
    launch_on(stream_, variant, config, params, params_bytes);
  }
  void crowd() override;
  void synchronize() override;
  std::vector<std::string> take_reports() override;
  bool take_counts(Counts&) override { return false; }  // the card is counted by Nsight Compute
  int record(const std::function<void()>& body) override;
  void replay(int graph) override;
  double time_of(const std::function<void()>& body) override;
  std::function<double()> clock_reader() override;
  void flush_l2() override;

  /// What the next launches of test builds find in moe_planted (device/hopper/ptx_planted.cuh): a Fault and
  /// the seed of the delays, 0 = none. Release builds of kernels have no such words and ignore it.
  void plant(std::int32_t fault, std::uint32_t delays);
  /// From here on sms() says at most this many, so that a CTA gets as many tiles as on a small emulated
  /// machine.
  void limit_sms(int most) { sms_limit_ = most; }

 private:
  struct Buffer {
    CUdeviceptr raw = 0;
    std::size_t bytes = 0;
    BufferUse use = BufferUse::workspace;
    std::string name;
    bool pooled = false;  // small: of the stream's pool, which gives and takes without a system call
  };
  struct Kernel {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    std::size_t shared_bytes = 0;  // dynamic limit that was set
    std::size_t params_bytes = 0;  // size of the one parameter
  };
  Kernel& kernel(int variant);
  void launch_on(CUstream stream, int variant, const LaunchConfig& config, const void* params,
                 std::size_t params_bytes);
  void release(const Buffer& buffer);
  std::vector<std::uint8_t> read_guards();
  void tell_planted(const Kernel& kernel);

  std::span<const CubinImage> images_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent start_ = nullptr, stop_ = nullptr;
  std::string device_name_, bus_id_;
  int sms_ = 0, sms_limit_ = std::numeric_limits<int>::max(), driver_version_ = 0;
  std::size_t l2_bytes_ = 0;
  std::map<Address, Buffer> buffers_;
  std::map<int, Kernel> kernels_;
  std::vector<CUgraphExec> graphs_;
  CUdeviceptr flush_buffer_ = 0;
  CUstream crowd_stream_ = nullptr;
  CUdeviceptr crowd_buffer_ = 0;
  CUdeviceptr guards_ = 0;  // where all guards are gathered, so that one copy brings them to the host
  std::size_t guards_bytes_ = 0;
  bool plants_ = false;
  std::int32_t planted_[2] = {0, 0};
};

}  // namespace moe::device
