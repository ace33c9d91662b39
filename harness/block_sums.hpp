// What do a verdict's blocks come to? Outputs by stage and by expert: all that a report on disk keeps of the
// right blocks, and what the page draws.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

struct StageSum {
  std::string stage;
  std::int64_t checked = 0, wrong = 0;   // outputs
  int column_blocks = 0;                 // 128-column blocks of a row
  std::map<int, std::int64_t> by_ratio;  // n -> blocks whose worst |got - want| / bound is in [2^n, 2^(n+1))
  bool operator==(const StageSum&) const = default;
};

struct ExpertSum {
  int expert = 0;
  std::int64_t blocks = 0, wrong_blocks = 0, checked = 0, wrong = 0;
  bool operator==(const ExpertSum&) const = default;
};

struct BlockSums {
  std::vector<StageSum> stages;    // in the order of the layer
  std::vector<ExpertSum> experts;  // ascending, over all stages
  bool operator==(const BlockSums&) const = default;
};

/// Ratios below 2^kLeastRatio or from 2^kMostRatio on (infinity too) count at these ends.
constexpr int kLeastRatio = -16, kMostRatio = 8;

BlockSums block_sums(const std::vector<BlockVerdict>& blocks);

}  // namespace moe::harness
