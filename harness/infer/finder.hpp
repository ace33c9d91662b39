// What does a kernel that declares nothing do? Its inferred Semantics, asked once for each kernel, layout,
// tile, scheme and activation, and the judgement by it.
#pragma once
#include <map>
#include <string>

#include "harness/infer/infer.hpp"
#include "harness/judge.hpp"

namespace moe::harness {

class SemanticsFinder {
 public:
  SemanticsFinder(device::Executor& executor, int threads) : executor_(executor), threads_(threads) {}
  /// Runs the probes on the first call for a kernel; opens sessions, so none of the executor's may be in use.
  const Inference& of(const Case& c);
  /// The same with probes of the case's own sizes.
  const Inference& of_full_size(const Case& c);
  /// What was found, or null where the kernel was not asked yet.
  const Inference* known(const Case& c) const;

 private:
  device::Executor& executor_;
  int threads_;
  std::map<std::string, Inference> found_;
};

struct InferredVerdict {
  Verdict verdict;
  /// Inside every bound, but a stage whose roundings the probes found gives other bits here, and those of no
  /// other known one: only probes of the case's own sizes can tell a fault from a rounding that follows size.
  bool ask_full_size = false;
};

/// Each stage to the bit by what was inferred of it, else as that of a kernel of which nothing is known; the
/// reason says which. Several Semantics that no probe told apart are tried in turn, and then all other known
/// ones: one must explain every bit. `full`: what probes of the case's own sizes said, null where they were
/// not run; where they found the stage's roundings, bits that none explains have failed.
InferredVerdict judge_inferred(const Case& c, const TensorSet& inputs, const TensorSet& outputs,
                               JudgePlan plan, const Inference& found, const Inference* full = nullptr);

/// The verdict of a case that passed by a kernel that was wrong in a probe.
Verdict probe_verdict(const Inference& found);

}  // namespace moe::harness
