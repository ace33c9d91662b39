// What does a reviewer ask about one case? Both kernels on the same inputs: is each right, do their bits
// differ and why, which is faster, and are both still right after the timing.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/run_problem.hpp"
#include "harness/upstream/explain_bits.hpp"
#include "harness/upstream/time_pair.hpp"

namespace moe::harness {

struct PairPlan {
  RunPlan before, after;
  int samples = 30;          // of each side in a batch of rounds
  double time_limit_s = 20;  // of each side in a batch of rounds
};

struct PairRecord {
  CaseRecord before, after;  // measurement: all samples; after's verdict bears the word for speed
  std::vector<StageDifference> stages;
  BitsVerdict bits;
  std::optional<PairTiming> timing;
  std::string untimed;  // why there are no times; empty where there are
  std::string replay;   // command line that reviews this case again

  /// The verdict that a reader of one word needs: the worse of the two, with the side in its reason.
  Verdict verdict() const;
};

/// The choices name each side's kernel; the problem is one.
PairRecord compare_pair(const Problem& problem, const Choice& before, const Choice& after,
                        const Routing& routing, const TensorSet& inputs, const PairPlan& plan);

}  // namespace moe::harness
