// What became of the properties on one case? Each is tried on the case's kernel; the first that fails makes
// the case fail, with a replay line that names it.
#pragma once
#include <vector>

#include "harness/properties/property.hpp"
#include "harness/run_problem.hpp"

namespace moe::harness {

/// Tries plan.properties where the case ran; a kernel that is lost over one is the case's verdict, and the
/// rest is skipped.
void try_properties(OpenTrial& trial, const Routing& routing, const TensorSet& inputs, const RunPlan& plan);

/// Counts over all cases, in the order of `asked`.
std::vector<PropertyCount> count_properties(const std::vector<const Property*>& asked,
                                            const std::vector<CaseRecord>& cases);

}  // namespace moe::harness
