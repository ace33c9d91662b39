// What does a hardware file become when a card was measured anew, and what changed? Keys that were not
// measured keep their values and sources.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/calibrate/derive.hpp"

namespace moe::harness {

/// `base` is a hardware file's text. Throws BadInput where it is none, or where the result would be none.
std::string merge_hardware(std::string_view base, std::string_view where, const CardFacts& card,
                           const std::vector<CardConstant>& constants, const std::string& date);

/// One line a number and a point of a curve: old, new, per cent.
std::string old_against_new(std::string_view base, std::string_view where,
                            const std::vector<CardConstant>& constants);

/// Rows of two runs side by side: the largest relative difference and where, and each above `limit`.
std::string two_runs(const device::MeasuredRows& first, const device::MeasuredRows& second, double limit);
/// The largest relative difference of a row that both have.
double worst_difference(const device::MeasuredRows& first, const device::MeasuredRows& second);

}  // namespace moe::harness
