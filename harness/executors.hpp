// Which executor answers, and is it there? Built from the options; cuda is always isolated in a worker
// process, process:CMD is one.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "harness/record.hpp"

namespace moe::harness {

/// What an executor is built from; travels to the worker process as words.
struct ExecutorPlan {
  std::string name = "emulated";  // or cuda, reference, process:CMD
  int threads = 1;
  int sms = 1;              // that the emulated card has
  int first_schedule = 1;   // number of the emulated order that a session's second run takes
  std::string semantics{};  // preset that the reference executor follows; empty = the built-in kernels' own
  int card = 0;             // ordinal of the GPU that the cuda executor launches on
};
std::vector<std::string> to_words(const ExecutorPlan& plan);
ExecutorPlan plan_from_words(const std::vector<std::string>& words);  // throws BadInput

struct ExecutorChoice {
  std::unique_ptr<device::Executor> executor;  // null: it cannot run here
  std::string why_not;                         // one line: what is missing and how to get it
  std::vector<KernelInfo> kernels{};           // of a process, whether it can run here or not
  std::optional<DeviceFacts> device;
  bool graph = false;    // its kernels can run as a captured graph
  bool crowded = false;  // and beside another kernel on a second stream
  double card_bytes =
      std::numeric_limits<double>::infinity();  // free on the card; infinity = no card, or not known
};

/// The executor of the plan; cuda always in a worker process, others with `isolate`. `case_time_s` is the
/// watchdog's patience with one answer.
ExecutorChoice choose_executor(const ExecutorPlan& plan, bool isolate = false, double case_time_s = 300);

/// The executor itself, without isolation: what a worker serves. Throws MachineFailure where this build has
/// none.
std::unique_ptr<device::Executor> make_executor(const ExecutorPlan& plan);

/// Host threads to use: all that this process may run on.
int host_threads();

}  // namespace moe::harness
