#include "device/cuda/cuda_executor.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "device/cuda/cuda_machine.hpp"
#include "device/session/moe_session.hpp"

namespace moe::device {
namespace {

/// FNV-1a of all machine code that the binary carries: two measurements with the same hash ran the same
/// kernels.
std::string code_hash() {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const CubinImage& image : cubin_images())
    for (const char byte : image.bytes) hash = (hash ^ std::uint8_t(byte)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

/// Adds what only this executor knows to a measurement: the driver and the machine code.
class CudaSession final : public Session {
 public:
  CudaSession(std::unique_ptr<Session> inner, std::string driver)
      : inner_(std::move(inner)), driver_(std::move(driver)) {}
  void bind(const TensorSet& inputs) override { inner_->bind(inputs); }
  RunResult run(RunMode mode) override { return inner_->run(mode); }
  Measurement time(const TimingPlan& plan) override {
    Measurement measured = inner_->time(plan);
    measured.driver = driver_;
    measured.kernel_hash = code_hash();
    return measured;
  }
  Case resolved() const override { return inner_->resolved(); }

 private:
  std::unique_ptr<Session> inner_;
  std::string driver_;
};

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(int ordinal) : ordinal_(ordinal) {}
  std::string_view name() const override { return "cuda"; }
  std::vector<KernelInfo> kernels() const override { return built_in_kernels(); }

  Opened open(const Case& c) override {
    Opened opened = open_moe_session(c, [this]() -> std::shared_ptr<Machine> {
      if (!machine_) machine_ = std::make_shared<CudaMachine>(ordinal_);
      return machine_;
    });
    if (opened.session) {
      const int version = machine_->driver_version();
      opened.session = std::make_unique<CudaSession>(
          std::move(opened.session), fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10));
    }
    return opened;
  }

 private:
  int ordinal_;
  std::shared_ptr<CudaMachine> machine_;  // modules stay loaded from case to case
};

}  // namespace

bool cuda_was_built() { return true; }

std::unique_ptr<Executor> make_cuda_executor(int ordinal) { return std::make_unique<CudaExecutor>(ordinal); }

}  // namespace moe::device
