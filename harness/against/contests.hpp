// Which tile does the model pick, and does it know what the other operand order changes? Figures over rows
// that measured one problem several times.
#pragma once
#include <optional>
#include <vector>

#include "harness/against/score.hpp"

namespace moe::harness {

/// nullopt without a contest of two rows.
std::optional<Picks> picks_of(const std::vector<Scored>& rows);

/// One entry for each beginning of MeasuredRow::twin up to its first two words that has pairs ("as shipped",
/// "retuned").
std::vector<Swaps> swaps_of(const std::vector<Scored>& rows);

}  // namespace moe::harness
