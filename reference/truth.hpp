// What must a stage's output be, for the rows that someone wants judged? For each tensor of the stage the
// bits that the declared Semantics gives, the closed interval that any correct implementation stays in, and
// inside it the one that it leaves with a probability of at most kFailureProbability (bound.hpp).
// Stages are judged on the kernel's own previous output: the caller passes the kernel's tensors in canonical
// form (fixtures/README.md) beside the inputs, and only experts of judged rows are read.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::reference {

/// Truth of some rows of one output tensor. Element i = position of the row in `rows` * columns + column.
/// Values of codes are the codes' own values (without scale). low, want and high are numbers of the tensor's
/// type.
struct TensorTruth {
  std::string tensor;  // canonical name
  DType type = DType::bf16;
  std::int64_t columns = 0;        // elements a row
  std::vector<std::int64_t> rows;  // judged rows, numbered as in the canonical tensor
  Tensor bits;              // [rows, columns], the declared Semantics to the bit; empty if not asked for
  std::vector<float> want;  // spec: real arithmetic on the stage's input, rounded once; empty without bounds
  std::vector<float> low, high;  // every correct output lies in [low, high]; NaN where it must be NaN,
                                 // [-inf, inf] where nothing can be said (NaN is allowed too)

  std::vector<float> probable_low, probable_high;  // inside [low, high]; empty where that is not asked for
                                                   // or the stage has nothing random

  std::vector<char> weak;  // beside probable_low: 1 where the interval is too wide to prove anything
                           // (is_weak); else empty

  /// Beside `bits`, where the Semantics leaves some of them open (its exp is known up to an error only): the
  /// first and the last value that is right. Else empty.
  Tensor least, most;

  /// Largest distance of an allowed output from `want`.
  double bound(std::size_t i) const;
  /// |got - want| as a share of what is allowed in that direction: at most 1 if and only if got is in [low,
  /// high].
  double ratio(std::size_t i, double got) const;
};

struct StageTruth {
  std::string stage;
  std::vector<TensorTruth> tensors;
  const TensorTruth& at(std::string_view tensor) const;  // throws std::out_of_range
};

struct TruthOptions {
  const Semantics* semantics = nullptr;  // null: the kernel declares nothing
  bool bits = true;                      // fill `bits` (needs semantics)
  bool bounds = true;                    // fill want, low, high
  int threads = 1;
  bool probable = false;         // with bounds: fill probable_low and probable_high too
  bool weight_in_gemm2 = false;  // without semantics: gemm2 is known to hold the routing weight already
  bool sparse_weights = false;  // one or two codes a row of weights: sums lose next to nothing (sparse_sum.hpp)
  /// layer_truth without semantics: the activation's roundings and the place of the routing weight; null:
  /// with or without each rounding, the weight in combine.
  const Semantics* roundings = nullptr;
  bool wide_gemm1 = false, wide_gemm2 = false;  // layer_truth: they stay in fp32
};

/// Whether an interval is too wide to trust what lies in it: wider to a side than a quarter of the output and
/// of its typical size. Of normal data a zero then passes in a fifth of the places, another element's value
/// in a seventh; where less, both pass in fewer.
inline bool is_weak(double half_width, double want, double typical) {
  return !(half_width <= 0.25 * std::fmax(std::fabs(want), typical));
}

/// Distance between want and the farther end of the interval that judges: the probable one where there is
/// one.
double half_width(const TensorTruth& truth, std::size_t i);

/// The two sets a stage reads: the problem's inputs, and the kernel's outputs so far. Where a name is in both
/// the kernel's counts.
struct StageTensors {
  const TensorSet& inputs;
  const TensorSet& outputs;
};

/// x_codes and x_scale of token rows. Codes are judged under the kernel's own x_scale where it is among the
/// outputs.
StageTruth quantize_truth(const Problem&, StageTensors, std::span<const std::int64_t> tokens,
                          const TruthOptions&);
/// gemm1 (gemm = 1) or gemm2 of pair rows; pairs without an expert on this rank are left out.
StageTruth gemm_truth(const Problem&, int gemm, StageTensors, std::span<const std::int64_t> pairs,
                      const TruthOptions&);
/// act_codes and act_scale of pair rows, from gemm1.
StageTruth act_quant_truth(const Problem&, StageTensors, std::span<const std::int64_t> pairs,
                           const TruthOptions&);
/// out of token rows, from gemm2.
StageTruth combine_truth(const Problem&, StageTensors, std::span<const std::int64_t> tokens,
                         const TruthOptions&);
/// c of op=grouped_gemm, rows numbered in the flattened output ([experts * max_m] for the masked contract).
StageTruth grouped_gemm_truth(const Problem&, const TensorSet& inputs, std::span<const std::int64_t> rows,
                              const TruthOptions&);
/// out of token rows from the layer's inputs alone: every stage's interval is carried through the next.
/// `bits` is left empty (run the stages one by one for bits).
StageTruth layer_truth(const Problem&, const TensorSet& inputs, std::span<const std::int64_t> tokens,
                       const TruthOptions&);

}  // namespace moe::reference
