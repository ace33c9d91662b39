#include "reference/judged_pairs.hpp"

namespace moe::reference {

JudgedPairs judged_pairs(const Problem& problem, const Tensor& topk_ids,
                         std::span<const std::int64_t> tokens) {
  const std::vector<std::int32_t> experts = local_experts(problem, topk_ids);
  JudgedPairs pairs;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    for (std::int64_t slot = 0; slot < problem.shape.top_k; ++slot) {
      const std::int64_t pair = tokens[i] * problem.shape.top_k + slot;
      const std::int32_t expert = experts[std::size_t(pair)];
      if (expert < 0) continue;
      pairs.second.push_back({pair, std::int64_t(pairs.second.size()), expert});
      pairs.first.push_back({pair, std::int64_t(i), expert});
      pairs.token.push_back(std::int64_t(i));
    }
  return pairs;
}

}  // namespace moe::reference
