// What does the model say about the layouts of one problem, side by side? One column a choice, one row a
// quantity.
#pragma once
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

/// `records` are the choices of one problem; 80 columns for up to three of them. `hardware` as in
/// hardware_text.
std::string predict_table(const std::vector<CaseRecord>& records, const std::string& hardware);

}  // namespace moe::harness
