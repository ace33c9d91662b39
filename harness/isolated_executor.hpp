// How does a crash or a hang of a built-in kernel stay away from the program? The inner executor runs in a
// worker process that speaks the lines of adapters/README.md. A lost worker throws WorkerLost and is replaced
// at the next open.
#pragma once
#include <memory>
#include <string>

#include "device/executor.hpp"
#include "harness/child_process.hpp"

namespace moe::harness {

struct WorkerPlan {
  std::string program = "/proc/self/exe";
  std::vector<std::string> words;  // of the worker's command line
  double seconds = 300;            // patience with one answer
};

class IsolatedExecutor : public device::Executor {
 public:
  /// `inner` answers what needs no worker: its name and its kernels.
  IsolatedExecutor(std::unique_ptr<device::Executor> inner, WorkerPlan plan);
  std::string_view name() const override { return inner_->name(); }
  std::vector<KernelInfo> kernels() const override { return inner_->kernels(); }
  device::Opened open(const Case& c) override;

 private:
  std::unique_ptr<device::Executor> inner_;
  WorkerPlan plan_;
  std::shared_ptr<ChildProcess> child_;  // shared with the open session
};

}  // namespace moe::harness
