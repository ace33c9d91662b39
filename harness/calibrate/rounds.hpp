// What is a row's value when everything was measured several times over? Rounds of one part of the
// calibration follow each other over the whole run, so that a row meets many moments and places of the card.
#pragma once
#include <vector>

#include "device/calibrate/measured_rows.hpp"

namespace moe::harness {

class MeasuredRounds {
 public:
  /// Throws BadInput where a round has other rows than the first.
  void add(const device::MeasuredRows& round);
  int count() const { return int(rounds_.size()); }

  /// Each row's mean of the middle half of its values: as deaf to outliers as a median, and steady where a
  /// kernel has two rhythms, between which a median falls to either side.
  device::MeasuredRows typical() const;
  /// Rows whose even rounds say something else than their odd rounds, by more than `limit` (relative): what a
  /// second run would differ by, shown within one. All of them before the fourth round.
  int unsteady(double limit) const;

 private:
  std::vector<device::MeasuredRows> rounds_;
};

/// Mean of the middle half of `values`, which are not empty; a value on its border counts in part.
double middle_mean(std::vector<double> values);

}  // namespace moe::harness
