// Is a kernel that only bounds judge right where data leave one answer? A factor of 1.005, or a result that
// is cut, lies inside the bound of every wide sum, and probes have six tokens. The twin of such a case has
// its op, sizes, load and choice and exact data (fixtures/README.md) moved to where a bf16 cannot hold every
// whole number: sums every right kernel gives to the bit.
#pragma once
#include "fixtures/problem/case.hpp"
#include "fixtures/problem/routing.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// `c` with exact data.
Case exact_twin(const Case& c);

/// The inputs of a twin: exact data, and in column 127 of the first k-block a product of 448 units in every
/// sum that the layer's later stages leave room for. 448 + n needs a rounding where n is odd; all stays below
/// 2^14 units.
TensorSet exact_twin_inputs(const Case& twin, const Routing& routing, int threads);

}  // namespace moe::harness
