// Is a router's answer right, when its fp32 scores may differ in the last bits? Ids may differ from the real
// ranking only where scores tie within the error of fp32; weights are judged for the ids that the kernel
// chose.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/truth.hpp"

namespace moe::reference {

struct TopkRow {
  std::int64_t token = 0;
  bool right = true;
  bool tied = false;       // the ids differ from route()'s, by a tie
  double worst_ratio = 0;  // of a weight: |got - want| / allowed
  std::string wrong;       // what is wrong, one line; empty if right
};

/// Judges topk_ids and topk_weights among `outputs` against router_logits and router_bias, for some tokens.
std::vector<TopkRow> judge_topk(const Problem& problem, StageTensors tensors,
                                std::span<const std::int64_t> tokens, int threads);

/// topk_ids and topk_weights to the bit: fixtures' route(), whose arithmetic is the project's own
/// (fixtures/README.md, "Routers, to the bit"). For kernels that declare Semantics.
StageTruth topk_truth(const Problem& problem, StageTensors tensors, std::span<const std::int64_t> tokens);

}  // namespace moe::reference
