// What does a worker process do? It serves one Executor over the lines of adapters/README.md until its
// parent goes away. The program starts itself as a worker; users never do.
#pragma once
#include <string>
#include <vector>

#include "device/executor.hpp"

namespace moe::harness {

inline constexpr const char* kWorkerCommand = "worker";

/// `words` come from to_words(ExecutorPlan). Returns the exit status.
int run_worker(const std::vector<std::string>& words);

/// Serves `executor` on standard input and output.
int serve_worker(device::Executor& executor);

}  // namespace moe::harness
