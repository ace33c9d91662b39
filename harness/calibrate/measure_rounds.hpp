// In which order, and how often, is a card measured? Rounds of every part of the calibration in turns, then
// more of what is not steady yet.
#pragma once
#include <iosfwd>

#include "device/calibrate/measured_rows.hpp"
#include "device/machine.hpp"

namespace moe::harness {

/// Each row's typical value. Rounds beyond the least number start only while `budget` seconds last; a line a
/// part goes to `progress`.
device::MeasuredRows measure_in_rounds(device::Machine& machine, double budget, std::ostream& progress);

}  // namespace moe::harness
