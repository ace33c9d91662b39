// Which problems and choices do the options mean? One Work a problem (tokens x loads), with its choices in
// all layouts that were asked for.
#pragma once
#include <vector>

#include "harness/options.hpp"

namespace moe::harness {

struct Work {
  Problem problem;
  std::vector<Choice> choices;
};

/// Throws BadInput where a problem cannot exist. A --case line gives one Work with one choice.
std::vector<Work> expand(const ProblemOptions& options, const Shard& shard);

/// Throws BadInput where the options name no problem at all.
void require_problem(const ProblemOptions& options);

/// The problem of the options without its tokens and load: model or sizes, ranks, scheme, data.
Problem base_problem(const ProblemOptions& options);

}  // namespace moe::harness
