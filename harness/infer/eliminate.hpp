// Which candidates give the very bits that a run gave? Stage by stage: where the run shows a stage's output,
// candidates are held against it on the run's own earlier outputs; where it does not, each candidate's own
// result is carried on, candidates with equal results together, until an output can be compared.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fixtures/problem/tensor.hpp"
#include "harness/infer/candidates.hpp"

namespace moe::harness {

/// How far a class of candidates is from what was seen.
struct Distance {
  std::int64_t wrong = 0, checked = 0;  // elements
  std::string place;  // of the first wrong one: "gemm1 row 3 column 7: got 1.5, it gives 1.25"
};

/// What one compared stage said.
struct StageFinding {
  LayerStage stage = LayerStage::quantize;
  bool stage_only = false;  // judged on the run's own previous output: it speaks of this stage alone
  std::vector<int> left;    // candidates that give these bits; empty = none does (a contradiction)
  int nearest = -1;         // the candidate with the fewest wrong elements
  Distance nearest_distance;
  /// For each field value (number of the field, of the value) that no candidate of `left` has: the least
  /// distance of those that have it.
  struct RuledOut {
    std::size_t field = 0;
    std::uint8_t value = 0;
    Distance distance;
  };
  std::vector<RuledOut> ruled_out;
};

/// A run's inputs and outputs with the space they are held against.
struct Evidence {
  const Problem& problem;  // of the run; of a layer ids and weights are among the inputs
  const TensorSet& inputs;
  const TensorSet& outputs;  // canonical tensors, any part of them
  const CandidateSpace& space;
  bool one_hot = false;  // see stage_key
  int threads = 1;
};

/// Numbers of the candidates in `from` that give the bits of all compared stages, over the tokens in
/// `tokens` (of op=grouped_gemm over all rows). A stage that no candidate gives eliminates nothing (it is a
/// contradiction, told among the findings).
std::vector<int> eliminate(const Evidence& e, std::vector<int> from, std::span<const std::int64_t> tokens,
                           std::vector<StageFinding>& findings);

}  // namespace moe::harness
