// What belongs together in a chart over tokens? Cases that differ in tokens, layout and tile alone are one
// sweep; of several tiles the fastest counts, measured before predicted.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

/// Seconds of one layout at one token count.
struct LayoutTime {
  std::optional<double> predicted, measured;
  const CaseRecord* record = nullptr;
};

struct TokenSweep {
  std::string label;                                        // "deepseek-v3 tp 8, load uniform"
  std::map<std::int64_t, std::map<Layout, LayoutTime>> at;  // by tokens, none of which is 0
};

/// Sweeps of the report's predicted cases, the longest first; records are the report's.
std::vector<TokenSweep> token_sweeps(const Report&);

/// Time of `baseline` over that of `own`; above 1: own is faster.
std::optional<double> gain_of(const LayoutTime& baseline, const LayoutTime& own,
                              std::optional<double> LayoutTime::*which);

/// Median of a case's samples; nothing where it was not timed.
std::optional<double> measured_seconds(const CaseRecord&);
/// The form of a layout's marks, 0..3.
int form_of(Layout);

}  // namespace moe::harness
