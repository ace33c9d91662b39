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

/// Rows of a report for them, nothing counted yet.
std::vector<PropertyCount> no_counts(const std::vector<const Property*>& asked);

}  // namespace moe::harness
