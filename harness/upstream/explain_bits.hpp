// Does a Semantics say why two right kernels give different bits? Each side's roundings are what it declares,
// or what probes found, or a preset that gives its bits; if both are known, what differs between them is the
// reason.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/semantics.hpp"
#include "harness/run_problem.hpp"
#include "harness/upstream/bit_difference.hpp"

namespace moe::harness {

enum class Bits { same, explained, unexplained, not_compared };
std::string_view name(Bits bits);

struct BitsVerdict {
  Bits word = Bits::not_compared;
  std::string reason;  // one line
};

/// Roundings that give every bit of a kernel's outputs on this case, as far as the judge's budget went;
/// several where the case does not tell them apart, none where nothing is known.
struct KnownRoundings {
  std::vector<Semantics> possible;
  std::string origin;  // "declared", "inferred", "a preset that gives its bits here"
};
/// Of a trial that passed. `plan` is the trial's.
KnownRoundings roundings_of(const OpenTrial& trial, const TensorSet& inputs, const RunPlan& plan);

/// The fields whose values differ, "scale_order product_fma -> act_weight_fma, combine_fma ..."; empty where
/// both round alike.
std::string rounding_changes(const Semantics& before, const Semantics& after);

/// The verdict on two passed trials whose outputs differ as `stages` say. Of several possible roundings the
/// two that differ least are taken. Pure.
BitsVerdict explain_bits(const std::vector<StageDifference>& stages, const KnownRoundings& before,
                         const KnownRoundings& after);

}  // namespace moe::harness
