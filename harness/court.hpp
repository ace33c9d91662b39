// How do the findings of many stages become one verdict? The first stage that is wrong gives reason, worst
// place and fault class; a stage that an all-zero output would have passed, or whose bound is too wide, makes
// the trial mistrusted.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "harness/compare_output.hpp"
#include "harness/judge.hpp"
#include "harness/judged_rows.hpp"
#include "harness/same_bits.hpp"
#include "reference/topk.hpp"
#include "reference/truth.hpp"

namespace moe::harness {

/// What is judged, by what.
struct JudgeCase {
  const Case& c;
  const TensorSet& inputs;
  const TensorSet& outputs;
  const JudgePlan& plan;
  const Problem& problem() const { return c.problem; }
  reference::StageTensors tensors() const { return {inputs, outputs}; }
};

class Court {
 public:
  explicit Court(const JudgeCase& j);

  const reference::TruthOptions& options() const { return truth_; }
  bool to_the_bit() const { return truth_.bits; }
  /// From here on bits, whatever the kernel declares: integers have no roundings.
  void judge_bits();
  /// How the stage that comes next is judged: a kernel that declares nothing to the bit where the data leave
  /// one answer, else by intervals.
  const reference::TruthOptions& enter(JudgedStage stage);
  /// A whole layer by its `out` alone: to the bit where the data leave one answer (true), else by intervals
  /// that were carried through the layer (false). For a kernel that declares nothing.
  bool enter_whole_layer();

  /// Expert and rank of each pair row; `count` pairs in all.
  void set_pairs(const std::vector<JudgedRow>& local, std::int64_t count);
  /// Elements that the budget left unjudged.
  void leave_out(std::int64_t elements) { unjudged_ += elements; }
  /// All due values are zero by right (an idle rank): that is no reason for mistrust.
  void expect_zeros() { zeros_expected_ = true; }

  void add(const reference::StageTruth& truth);
  /// Rows of a router that are right up to ties.
  void add(const std::vector<reference::TopkRow>& rows);
  void fail(const std::string& reason);
  Verdict verdict();

 private:
  void add(const reference::TensorTruth& truth);
  void add(const StagePair& pair, const StageFindings& findings);
  void one_answer(bool one);
  void note_weak(const reference::TensorTruth& truth);
  void mistrust(const std::string& reason);
  std::string wrong_text(const StagePair& pair, const StageFindings& findings) const;

  const JudgeCase& j_;
  reference::TruthOptions truth_;
  std::vector<JudgedRow> by_pair_;
  std::int64_t unjudged_ = 0;
  bool zeros_expected_ = false;
  bool one_answer_ = false;       // the current stage: to the bit although nothing is declared
  bool only_one_answer_ = false;  // all stages so far
  bool carried_ = false;          // intervals come through the whole layer
  std::string blind_;             // the first main stage that zeros would have passed
  std::string weak_;              // why the first stage with too wide a bound proves nothing
  double weak_share_ = 0;         // part of its elements
  Verdict v_;
};

}  // namespace moe::harness
