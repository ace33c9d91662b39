#include "harness/calibrate/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

/// Values of row `row` in rounds first, first + step, ..
std::vector<double> values_of(const std::vector<device::MeasuredRows>& rounds, std::size_t row,
                              std::size_t first, std::size_t step) {
  std::vector<double> values;
  for (std::size_t i = first; i < rounds.size(); i += step) values.push_back(rounds[i].all()[row].value);
  return values;
}

}  // namespace

double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double quarter = double(values.size()) / 4, end = double(values.size()) - quarter;
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += values[i] * std::max(std::min(double(i) + 1, end) - std::max(double(i), quarter), 0.0);
  return sum / (end - quarter);
}

void MeasuredRounds::add(const device::MeasuredRows& round) {
  if (!rounds_.empty() && round.all().size() != rounds_.front().all().size())
    throw BadInput(fmt::format("calibrate: round {} has {} rows, the first has {}", rounds_.size() + 1,
                               round.all().size(), rounds_.front().all().size()));
  rounds_.push_back(round);
}

device::MeasuredRows MeasuredRounds::typical() const {
  device::MeasuredRows rows;
  if (rounds_.empty()) return rows;
  for (std::size_t row = 0; row < rounds_.front().all().size(); ++row) {
    const device::MeasuredRow& first = rounds_.front().all()[row];
    rows.add(first.kernel, first.parameters, middle_mean(values_of(rounds_, row, 0, 1)), first.unit);
  }
  return rows;
}

int MeasuredRounds::unsteady(double limit) const {
  if (rounds_.empty()) return 0;
  const std::size_t rows = rounds_.front().all().size();
  if (rounds_.size() < 4) return int(rows);
  int count = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const double even = middle_mean(values_of(rounds_, row, 0, 2)),
                 odd = middle_mean(values_of(rounds_, row, 1, 2));
    count += std::abs(even - odd) > limit * std::max(std::abs(even), std::abs(odd));
  }
  return count;
}

}  // namespace moe::harness
