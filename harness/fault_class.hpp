// What kind of fault made these wrong elements? A guess in words from their values (never written, zeros,
// NaN, another row's values, one factor, last bits) and their places (one element, row, column, block, tile,
// expert, scattered).
#pragma once
#include <string>

#include "harness/compare_output.hpp"

namespace moe::harness {

/// "" where nothing is wrong. Example: "zeros in one 128-column block of expert 3".
std::string guess_fault(const StagePair& pair, const StageFindings& findings);

}  // namespace moe::harness
