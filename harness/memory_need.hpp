// Does a case fit into memory? An estimate of what inputs, executor and judge hold at once, made before any
// of it, so that a case that is too large is refused instead of killed by the system.
#pragma once
#include <limits>
#include <string>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/routing.hpp"

namespace moe::harness {

/// How the case will be run, as far as memory goes.
struct MemoryUse {
  std::string executor = "emulated";
  bool isolated = false;    // a worker process holds a second copy of inputs and outputs
  bool timed = false;       // on the card: more weight sets, so that L2 is cold
  bool two_runs = false;    // a second run's outputs beside the first's
  double judge_budget = 0;  // multiply-adds
};

/// Bytes at the peak; counts the tensors, not the program (some 100 MB).
struct MemoryNeed {
  double weights = 0, activations = 0, judging = 0;  // host; judging: the reference's own work space
  double card = 0;
  double host() const { return weights + activations + judging; }
};
/// `load`: rows of each local expert. Pure.
MemoryNeed memory_need(const Problem& problem, const ExpertLoad& load, const MemoryUse& use);

/// Bytes that may be used; infinity = not known.
struct MemoryRoom {
  double host = std::numeric_limits<double>::infinity(), card = std::numeric_limits<double>::infinity();
};

/// Empty where the need fits, else one line: how much is needed, how much there is, what would fit.
std::string memory_refusal(const Problem& problem, const ExpertLoad& load, const MemoryUse& use,
                           const MemoryRoom& room);

}  // namespace moe::harness
