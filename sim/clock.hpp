// At which clock does the card run a kernel? Hz as a function of the tensor-pipe load it causes, and the
// other way: a fixed point, because a slower clock raises the load of a memory-bound kernel.
#pragma once
#include <algorithm>
#include <cmath>

#include "fixtures/problem/hardware.hpp"

namespace moe::sim {

/// Sustained clock at a tensor-pipe load of 0..1. Never above the clock that the card takes as soon as a
/// wgmma runs.
inline double sustained_hz(const Hardware& hardware, double tensor_load) {
  return std::min(hardware.tensor_hz, hardware.clock_by_tensor_load.at(std::clamp(tensor_load, 0.0, 1.0)));
}

/// The clock f with f = sustained_hz(load(f)). `load` falls or stays as f rises, so bisection on f -
/// sustained_hz(load(f)) would do; a few damped steps are enough for the flat measured curve.
template <class Load>
double settle_clock(const Hardware& hardware, Load&& load) {
  double hz = hardware.tensor_hz;
  for (int step = 0; step < 3; ++step) hz = 0.5 * (hz + sustained_hz(hardware, load(hz)));
  return sustained_hz(hardware, load(hz));
}

}  // namespace moe::sim
