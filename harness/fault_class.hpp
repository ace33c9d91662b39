// What kind of fault made these wrong elements? A guess in words from their values (never written, zeros,
// NaN, another row's values, one factor, last bits) and their places (one element, row, column, block, tile,
// expert, scattered).
#pragma once
#include <string>

#include "harness/compare_output.hpp"

namespace moe::harness {

/// "" where nothing is wrong. Example: "zeros in one 128-column block of expert 3".
std::string guess_fault(const StagePair& pair, const StageFindings& findings);

/// Where every wrong row is a token with a slot of no expert (`topk_ids`, [tokens, top_k], holds -1 or a
/// number beyond the experts there), and some other judged token is right: that such slots were computed.
/// Else "". The rows of `pair` are tokens.
std::string guess_slots(const StagePair& pair, const StageFindings& findings, const Tensor& topk_ids,
                        int experts);

/// Of a router's topk_ids [tokens, top_k]: ids that were never written, or that no expert has; else another
/// choice.
std::string guess_routing(const Tensor* topk_ids, int experts);

}  // namespace moe::harness
