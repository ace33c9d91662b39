// Where do the outputs of two kernels differ? Counted bit by bit over every element that somebody owns; only
// the payload of a NaN does not count, as in every judgement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

struct StageDifference {
  std::string stage;
  std::int64_t elements = 0, different = 0;
  std::optional<Place> worst;  // by ulp; `got` is after's value, `want` before's
};

/// Of each tensor that both gave in the same type and width, in the order of the layer.
std::vector<StageDifference> bit_differences(const Case& c, const TensorSet& inputs, const TensorSet& before,
                                             const TensorSet& after);

/// Sums over the stages; the worst place is that of the last stage that differs, which is the nearest to what
/// a user sees.
StageDifference all_stages(const std::vector<StageDifference>& stages);

}  // namespace moe::harness
