// How is a kernel tested that this program knows nothing of? Executor "process:CMD": CMD, in any language, is
// started once and answers the lines of adapters/README.md. When it dies, hangs or fails, the case in flight
// gets that verdict and the next case a new child.
#pragma once
#include <memory>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/kernel_info.hpp"
#include "harness/record.hpp"

namespace moe::harness {

inline constexpr const char* kProcessPrefix = "process:";

struct ForeignExecutor {
  std::unique_ptr<device::Executor> executor;  // null where it can do nothing here
  std::string why_not;
  std::vector<KernelInfo> kernels;  // that it serves, or would
  std::optional<DeviceFacts> device;
  bool graph = false;    // its kernels can run as a captured graph
  bool crowded = false;  // and beside another kernel on a second stream
};

/// Starts `command` by /bin/sh and greets it; `seconds` is the patience with one answer. Throws BadInput with
/// what it wrote last where it gives no greeting that fits.
ForeignExecutor open_process_executor(const std::string& command, double seconds);

}  // namespace moe::harness
