// Which pairs does a list of tokens need, and where do their rows stand? Shared by the whole-layer
// computations, which keep arrays of only those rows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "reference/operands.hpp"

namespace moe::reference {

struct JudgedPairs {
  std::vector<GemmRow> first;       // GEMM 1: act = position of the token, out = pair
  std::vector<GemmRow> second;      // GEMM 2: act = position of the pair in these lists, out = pair
  std::vector<std::int64_t> token;  // position of each pair's token
};

/// Pairs of `tokens` whose expert is on this rank, in order.
JudgedPairs judged_pairs(const Problem& problem, const Tensor& topk_ids,
                         std::span<const std::int64_t> tokens);

}  // namespace moe::reference
