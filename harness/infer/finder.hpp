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
  /// A kernel that crashes, hangs or complains over a probe has refused it.
  const Inference& of(const Case& c);
  /// What was found, or null where the kernel was not asked yet.
  const Inference* known(const Case& c) const;

 private:
  device::Executor& executor_;
  int threads_;
  std::map<std::string, Inference> found_;
};

/// To the bit by what was inferred, or, where that is unknown, as a kernel of which nothing is known. The
/// reason says which. Several Semantics that no probe told apart are tried in turn: one must explain every
/// bit.
Verdict judge_inferred(const Case& c, const TensorSet& inputs, const TensorSet& outputs, JudgePlan plan,
                       const Inference& found);

}  // namespace moe::harness
