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

/// The prediction of after over that of before, to be held against timing->ratio; empty where the model does
/// not know both, or both are the same choice of one kernel.
std::optional<double> predicted_ratio(const PairRecord& pair);

/// One side of a problem: its kernel, layout and tile, and the inputs as this tile wants them (only blocks of
/// the routed contract follow the tile).
struct PairSide {
  const Choice& choice;
  const TensorSet& inputs;
};
PairRecord compare_pair(const Problem& problem, const PairSide& before, const PairSide& after,
                        const Routing& routing, const PairPlan& plan);

}  // namespace moe::harness
