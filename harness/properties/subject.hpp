// How does a property ask a kernel? A Subject is one case with its inputs and the executor: it gives inputs
// to be changed, runs them in the case's session or in one of another case, and says what is known of the
// kernel. A layer's routing is an input here (load=trace), so that a property can change it without a router
// in between.
#pragma once
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "device/executor.hpp"
#include "fixtures/problem/routing.hpp"
#include "harness/properties/tensor_changes.hpp"

namespace moe::harness {

/// What a property needs cannot be had (the kernel refuses a shape, nothing is left to compare): it is
/// skipped.
struct NotApplicable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A run had findings of its own (a protocol fault, a damaged guard): what() is the first.
struct RunFinding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SubjectPlan {
  device::Executor* executor = nullptr;
  bool foreign = false;           // somebody else's kernel: tiles are hints
  bool graph = false;             // it can run as a captured graph
  bool crowded = false;           // and beside another kernel on a second stream
  bool known_arithmetic = false;  // declared or inferred: sums have one order whatever the shape
  bool deterministic = true;
  int threads = 1;
  std::optional<Counts> counts = {};  // of the case's own run; empty where the executor cannot count
};

class Subject {
 public:
  Subject(const Case& resolved, const Routing& routing, const TensorSet& inputs, const SubjectPlan& plan);

  const Case& trial() const { return case_; }
  const Problem& problem() const { return case_.problem; }
  const MoeShape& shape() const { return case_.problem.shape; }
  Op op() const { return case_.problem.op; }
  const SubjectPlan& plan() const { return plan_; }
  int first_expert() const { return problem().rank * shape().local_experts(); }
  ExpertLoad load() const;  // rows of this rank's experts
  bool is_local(std::int32_t id) const {
    return id >= first_expert() && id < first_expert() + shape().local_experts();
  }

  /// The case's inputs; the copy shares their memory until a change takes its own (tensor_changes.hpp).
  const TensorSet& inputs() const { return inputs_; }
  /// What the kernel gives for them; run once.
  const TensorSet& outputs();
  /// Throws RunFinding, NotApplicable (refused), WorkerLost.
  TensorSet run(const TensorSet& inputs, device::RunMode mode = device::RunMode::eager);
  TensorSet run_as(const Case& c, const TensorSet& inputs, device::RunMode mode = device::RunMode::eager);

  /// Opens `c` and says why it was refused; empty = it was taken.
  std::string refusal_of(const Case& c);

  /// The same case with other data and, in a layer, routing weights 1 / top_k: drawn, not run.
  TensorSet inputs_of(DataMode data) const;
  Case case_of(DataMode data) const;

  /// Elements that comparisons have looked at since the last `start`, and those that were not zero.
  void start() { seen_ = nonzero_ = 0; }
  void note(std::int64_t elements, std::int64_t nonzero) { seen_ += elements, nonzero_ += nonzero; }
  std::int64_t seen() const { return seen_; }
  std::int64_t nonzero() const { return nonzero_; }

 private:
  void open(const Case& c);

  Case case_;
  Routing routing_;
  TensorSet inputs_;
  SubjectPlan plan_;
  std::optional<TensorSet> outputs_;
  std::string opened_;  // line of the open session
  std::unique_ptr<device::Session> session_;
  std::int64_t seen_ = 0, nonzero_ = 0;
};

}  // namespace moe::harness
