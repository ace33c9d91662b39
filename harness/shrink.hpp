// What is the smallest case that still fails? Moves that mean something (halve the tokens, the experts, K,
// plainer data and routing), tried greedily under a budget; a failure that does not repeat is called flaky
// and not shrunk.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

/// Valid simpler cases, the boldest first.
std::vector<Case> simpler_cases(const Case& c);

/// How large a case is to a reader: rows times slots times experts times columns in units of a scale block
/// (16 without blocks). What "twice as large as the trigger" means.
double case_size(const Case& c);

/// A failure is repeated so often before it is shrunk.
inline constexpr int kRepeats = 2;

struct ShrinkBudget {
  int runs = 120;
  std::function<bool()> out_of_time = [] { return false; };
};

struct Shrunk {
  Case smallest;
  int runs = 0, steps = 0;
  bool flaky = false;  // the failure did not repeat
};

/// In which way a verdict is bad: its word, and its reason without sizes, places and what was said behind it
/// ("failed: of elements of gemm1 are wrong", "failed: P8"). Cases that fail in the same way have the same.
std::string failure_kind(const Verdict& verdict);

/// `fails` runs a case; it is asked kRepeats times for `failing` itself.
Shrunk shrink_case(const Case& failing, const std::function<bool(const Case&)>& fails,
                   const ShrinkBudget& budget);

}  // namespace moe::harness
