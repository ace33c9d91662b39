// Which lines of variants.hpp does a layer launch? The same look-ups that its session does, without a
// machine.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"

namespace moe::device {

/// Names of the compiled kernels, in stream order; `c` is a moe_layer with settled tiles that refuse_case
/// takes. Throws std::logic_error where one is not in the table, so that a launch would find none.
std::vector<std::string> launched_kernels(const Case& c);

}  // namespace moe::device
