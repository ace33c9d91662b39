#include "reference/truth.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace moe::reference {

double TensorTruth::bound(std::size_t i) const {
  return std::fmax(double(high[i]) - want[i], double(want[i]) - low[i]);
}

double TensorTruth::ratio(std::size_t i, double got) const {
  constexpr double kOutside = std::numeric_limits<double>::infinity();
  if (low[i] == -kOutside && high[i] == kOutside) return 0;
  if (std::isnan(low[i]) || std::isnan(high[i])) return std::isnan(got) ? 0 : kOutside;
  if (std::isnan(got)) return kOutside;
  if (got == want[i]) return 0;
  const double room = got > want[i] ? double(high[i]) - want[i] : double(want[i]) - low[i];
  if (std::isinf(room)) return got >= low[i] && got <= high[i] ? 1 : kOutside;
  return std::fabs(got - want[i]) / room;  // room 0: infinite
}

double half_width(const TensorTruth& truth, std::size_t i) {
  if (truth.probable_low.empty()) return truth.bound(i);
  return std::fmax(double(truth.probable_high[i]) - truth.want[i],
                   double(truth.want[i]) - truth.probable_low[i]);
}

const TensorTruth& StageTruth::at(std::string_view tensor) const {
  for (const TensorTruth& truth : tensors)
    if (truth.tensor == tensor) return truth;
  throw std::out_of_range("StageTruth: no tensor " + std::string(tensor));
}

}  // namespace moe::reference
