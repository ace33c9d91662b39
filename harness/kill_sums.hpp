// What does a self-test's matrix come to? Its rows summed by the kind of fault: how many seeds found theirs,
// how soon, and how near to the smallest trigger shrinking came.
#pragma once
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

struct KillSum {
  std::string kind;                   // "value"; the last sum is of "all"
  int faults = 0, not_tried = 0;      // a fault has two rows
  int seeds[2] = {}, killed[2] = {};  // [declared, undeclared]
  int cases = 0, runs = 0;            // medians over rows: cases until one failed, runs until it was smallest
  double distance = 0;                // median over rows
  int far = 0;                        // rows whose smallest case is more than twice the trigger
};

/// In the order in which the kinds first occur. Empty where there are no rows.
std::vector<KillSum> kill_sums(const std::vector<KillRow>& rows);

}  // namespace moe::harness
