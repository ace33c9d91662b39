// Is what a kernel gave right? Every stage is judged on the kernel's own previous output: to the bit where
// its Semantics is declared or the data leave every correct kernel one answer, else by the probable bound
// inside the hard one; a kernel that shows only `out` is judged by the intervals carried through the layer.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/tensor.hpp"
#include "fixtures/problem/verdict.hpp"
#include "harness/same_bits.hpp"

namespace moe::harness {

/// What a kernel that declares nothing may follow in one stage. Where none of it gives the bits that came,
/// bounds judge the stage, or it has failed.
struct StageCandidates {
  std::vector<Semantics> likely;  // tried in turn
  std::vector<Semantics> others;  // tried behind them, on a few rows first
  bool must_fit = false;          // one of them has to give every bit
};

struct JudgePlan {
  std::optional<Semantics> semantics;               // what the kernel declares; empty = nothing
  std::map<JudgedStage, StageCandidates> stages{};  // read where `semantics` is empty
  StageCandidates layer{};                          // of one that shows `out` alone: of all stages at once
  bool weight_in_gemm2 = false;  // what is known of a kernel that declares nothing: its gemm2 is weighted
  bool hard_bounds = false;      // designed inputs, whose losses are not independent: no probable bound
  bool by_interval = false;      // use intervals although the Semantics is declared
  bool sparse_weights = false;   // those of a scales twin: one or two codes a row
  double budget = 2e9;           // multiply-adds of GEMM rows to judge; beyond it a seeded sample of rows
  int threads = 1;
};

/// How one stage was judged that had candidates.
struct StageJudgement {
  JudgedStage stage = JudgedStage::quantize;
  std::optional<Semantics> fits;  // gives every bit; empty = none does
  bool likely = false;            // it is of the likely ones
  /// Elements that the nearest of those that must fit misses, of so many, where that excuses none: each is
  /// one step off, and they are so few that probes may have had none (Court::near_miss).
  std::int64_t missed = 0, elements = 0;
};

struct Judgement {
  Verdict verdict;
  std::vector<StageJudgement> stages;  // `combine` stands for a layer that shows `out` alone
};
/// As judge, and how each stage was.
Judgement judge_stages_of(const Case& c, const TensorSet& inputs, const TensorSet& outputs,
                          const JudgePlan& plan);

/// The verdict without speed, model and replay. `outputs` are canonical tensors (fixtures/README.md).
Verdict judge(const Case& c, const TensorSet& inputs, const TensorSet& outputs, const JudgePlan& plan);

}  // namespace moe::harness
