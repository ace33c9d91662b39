// How do the findings of many stages become one verdict? The first stage that is wrong gives reason, worst
// place and fault class; a stage that an all-zero output would have passed, or whose bound is too wide, makes
// the trial mistrusted.
#pragma once
#include <functional>
#include <optional>
#include <span>
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

  bool to_the_bit() const { return truth_.bits; }
  /// From here on bits, whatever the kernel declares: integers have no roundings.
  void judge_bits();
  /// What is due in some rows of a stage.
  using TruthOf = std::function<reference::StageTruth(std::span<const std::int64_t> rows,
                                                      const reference::TruthOptions&)>;
  /// Judges a stage: a kernel that declares nothing to the bit where the data leave one answer or a candidate
  /// gives what came, else by intervals.
  void judge(JudgedStage stage, std::span<const std::int64_t> rows, const TruthOf& truth);
  /// A whole layer by its `out` alone: to the bit where the data leave one answer or a candidate of the plan
  /// gives what came, else by intervals carried through the layer. `bits` and `bounds` say what is due.
  void judge_layer(std::span<const std::int64_t> tokens,
                   const std::function<reference::StageTruth(const Semantics&)>& bits, const TruthOf& bounds);
  const std::vector<StageJudgement>& stages() const { return stages_; }

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
  /// A truth beside what came.
  struct Due {
    std::vector<JudgedRow> rows;
    std::vector<float> answer;
    StagePair pair;  // points into both
  };
  Due due_of(const reference::TensorTruth& truth) const;
  void add(const reference::TensorTruth& truth);
  void add(const StagePair& pair, const StageFindings& findings);
  void one_answer(bool one);
  bool gives(const reference::StageTruth& truth) const;
  /// What `s` gives; empty where that is not what came.
  std::optional<reference::StageTruth> fits(std::span<const std::int64_t> rows, const TruthOf& truth,
                                            const Semantics& s, bool look_first) const;
  /// The first candidate that gives every bit, among those whose weight is where gemm2 showed it to be.
  const Semantics* fitting(JudgedStage stage, const StageCandidates& candidates,
                           std::span<const std::int64_t> rows, const TruthOf& truth,
                           std::optional<reference::StageTruth>& due) const;
  /// Where a stage that must fit does not: the nearest candidate, if it is a chance fit that ends here.
  std::optional<StageJudgement> near_miss(JudgedStage stage, const StageCandidates& candidates,
                                          std::span<const std::int64_t> rows, const TruthOf& truth) const;
  /// Of a layer whose sums are single products, by its `out` alone: the intervals of some roundings.
  reference::StageTruth factors_truth(std::span<const std::int64_t> tokens, const TruthOf& bounds);
  void note_weight(std::span<const std::int64_t> rows, const TruthOf& truth, const Semantics* fits);
  void set_place(WeightPlace place);
  reference::StageTruth gemm2_truth(std::span<const std::int64_t> rows, const TruthOf& truth, bool one);
  void use_bits(const Semantics* semantics);  // null: intervals
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
  std::int64_t bounded_ = 0;      // elements that an interval judged
  std::vector<StageJudgement> stages_;
  std::optional<WeightPlace> place_;  // where the routing weight multiplies, once gemm2 showed it
  std::string blind_;                 // the first main stage that zeros would have passed
  std::string weak_;                  // why the first stage with too wide a bound proves nothing
  double weak_share_ = 0;             // part of its elements
  Verdict v_;
};

}  // namespace moe::harness
