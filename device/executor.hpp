// How does the harness run a kernel, wherever it lives? One interface for the card, the emulated SM, another
// process, a cubin and the reference. An Executor opens a Session for a Case or refuses with a reason; a
// Session keeps packed weights and loaded code between runs.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/counts.hpp"
#include "fixtures/problem/kernel_info.hpp"
#include "fixtures/problem/measurement.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::device {

/// crowded: eager, while another kernel runs on a second stream of the device.
enum class RunMode { eager, graph, crowded };

/// What one run gave: stage outputs by name, and findings about how it ran.
struct RunResult {
  TensorSet outputs;                 // names of the op's contract (fixtures/README.md)
  std::vector<std::string> reports;  // protocol faults, a damaged canary, a changed input; empty = clean
  Counts counts;                     // of the GEMM kernels; empty where the executor cannot count
  bool counted = false;
};

struct TimingPlan {
  int samples = 30;
  bool cold = true;  // rotate weight sets / flush so that L2 holds none of the weights
  RunMode mode = RunMode::graph;
  bool per_stage = true;
  double time_limit_s = 20;
};

class Session {
 public:
  virtual ~Session() = default;
  /// Takes the inputs of the op's contract; weights are packed and loaded here. May be called again with new
  /// inputs.
  virtual void bind(const TensorSet& inputs) = 0;
  virtual RunResult run(RunMode mode) = 0;
  /// Empty `seconds` where this executor cannot time.
  virtual Measurement time(const TimingPlan& plan) = 0;
  /// The Case with `tile=auto` and other open choices resolved.
  virtual Case resolved() const = 0;
};

struct Opened {
  std::unique_ptr<Session> session;  // null when refused
  std::string refusal;               // one line: what is not supported and what would be
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<KernelInfo> kernels() const = 0;
  virtual Opened open(const Case& c) = 0;
};

}  // namespace moe::device
