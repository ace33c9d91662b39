// Who runs the cases of one command at the same time? Lanes: each an executor of its own, with a worker
// process of its own on one card. A case runs whole in one lane, so that its verdict is the same for any
// number of them.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "harness/suite.hpp"

namespace moe::harness {

/// One a lane: the ordinal of its card. `--jobs` lanes a card that `--device` names; one lane where neither
/// was given.
std::vector<int> lanes_of(const RunOptions& run);

/// What lanes are asked; every function is called by all lanes at any time.
struct LaneWork {
  /// The number of the next case; none: the lane ends.
  std::function<std::optional<std::size_t>()> next;
  /// Runs one with the lane's plan.
  std::function<void(const RunPlan&, std::size_t)> run;
};

/// Works until `next` names no more. Rethrows the first exception of a lane, after all have ended.
void run_in_lanes(const Suite& suite, const std::vector<int>& cards, const LaneWork& work);

}  // namespace moe::harness
