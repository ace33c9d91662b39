#include "harness/block_sums.hpp"

#include <algorithm>
#include <cmath>

namespace moe::harness {
namespace {

int ratio_bin(double ratio) {
  if (!std::isfinite(ratio)) return kMostRatio;
  return std::clamp(int(std::floor(std::log2(ratio))), kLeastRatio, kMostRatio);
}

}  // namespace

BlockSums block_sums(const std::vector<BlockVerdict>& blocks) {
  BlockSums sums;
  std::map<int, ExpertSum> experts;
  for (const BlockVerdict& b : blocks) {
    if (sums.stages.empty() || sums.stages.back().stage != b.stage)
      sums.stages.emplace_back().stage = b.stage;
    StageSum& stage = sums.stages.back();
    stage.checked += b.checked, stage.wrong += b.wrong;
    stage.column_blocks = std::max(stage.column_blocks, b.column_block + 1);
    if (b.worst_ratio > 0) ++stage.by_ratio[ratio_bin(b.worst_ratio)];
    if (b.expert < 0) continue;
    ExpertSum& e = experts[b.expert];
    e.expert = b.expert;
    ++e.blocks, e.wrong_blocks += b.wrong > 0, e.checked += b.checked, e.wrong += b.wrong;
  }
  for (const auto& [expert, sum] : experts) sums.experts.push_back(sum);
  return sums;
}

}  // namespace moe::harness
