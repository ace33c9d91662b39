// Where does a predicted time go, and what would another layout change? A waterfall of the launches in their
// order, and the launches that differ. Text for a terminal, 80 columns; the same numbers stand in the JSON
// report as parts.
#pragma once
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

/// A bar for each part of the prediction, beginning where the part before it ends.
std::string waterfall(const CaseRecord& record);

/// What `other` changes of `record`, part by part, the largest difference first, and in one sentence whether
/// the sum is beyond what a predicted gain is known to.
std::string layout_change(const CaseRecord& record, const CaseRecord& other);

/// The waterfall of the last record, and what each of the others changes of it.
std::string why_text(const std::vector<CaseRecord>& records_of_one_problem);

}  // namespace moe::harness
