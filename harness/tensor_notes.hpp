// What does one scale for a whole tensor do to the numbers of this run? A sentence beside the verdict: values
// that saturate under a static scale, a dynamic scale that no row needs (an amax over padding), gate and up
// that share a scale which fits one of them. None is wrong by itself: bits and bounds say that.
#pragma once
#include <string>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// Empty under other schemes and where there is nothing to say. Looks at `hidden`, `a1_scale` and `w13` of
/// the inputs and at the codes among the outputs, as far as they are there.
std::string tensor_notes(const Case& c, const TensorSet& inputs, const TensorSet& outputs);

}  // namespace moe::harness
