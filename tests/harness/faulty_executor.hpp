// An executor for tests that crashes, hangs, quits or refuses as the case's seed says, so that isolation can
// be proven.
#pragma once
#include <unistd.h>

#include <csignal>
#include <new>
#include <stdexcept>

#include "device/executor.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {

namespace seeds {
inline constexpr std::uint64_t kEcho = 1, kCrash = 11, kHang = 12, kQuit = 13, kBadInput = 14, kFailure = 15,
                               kRefuse = 16, kCrashInOpen = 17, kSticky = 18, kNoMemory = 19;
}

class FaultySession : public device::Session {
 public:
  explicit FaultySession(const Case& c) : case_(c) {}
  void bind(const TensorSet& inputs) override {
    if (case_.problem.seed == seeds::kBadInput) throw BadInput("this input is bad");
    if (case_.problem.seed == seeds::kFailure) throw MachineFailure("this machine is broken");
    inputs_ = inputs;
  }
  device::RunResult run(device::RunMode) override {
    if (case_.problem.seed == seeds::kSticky) sticky_ = true;
    if (sticky_) throw std::runtime_error("CUDA_ERROR_ILLEGAL_ADDRESS");
    if (case_.problem.seed == seeds::kNoMemory) throw std::bad_alloc();
    if (case_.problem.seed == seeds::kCrash) {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would make an exit of it
      std::raise(SIGSEGV);
    }
    if (case_.problem.seed == seeds::kQuit) ::_exit(5);
    while (case_.problem.seed == seeds::kHang) ::pause();
    device::RunResult result;
    result.outputs = inputs_;
    result.reports = {"one \"report\"\nof two lines"};
    result.counts.wgmma[16] = 42;
    result.counted = true;
    return result;
  }
  Measurement time(const device::TimingPlan& plan) override {
    Measurement m;
    m.seconds.assign(std::size_t(plan.samples), 1e-5);
    m.graph = plan.mode == device::RunMode::graph;
    return m;
  }
  Case resolved() const override { return case_; }

 private:
  inline static bool sticky_ = false;  // as a card's context: no later call of the process works
  Case case_;
  TensorSet inputs_;
};

class FaultyExecutor : public device::Executor {
 public:
  std::string_view name() const override { return "faulty"; }
  std::vector<KernelInfo> kernels() const override { return {}; }
  device::Opened open(const Case& c) override {
    if (c.problem.seed == seeds::kRefuse) return {nullptr, "not this one"};
    if (c.problem.seed == seeds::kCrashInOpen) std::raise(SIGABRT);
    return {std::make_unique<FaultySession>(c), ""};
  }
};

}  // namespace moe::harness
