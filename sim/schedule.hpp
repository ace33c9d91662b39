// How long does one persistent grouped GEMM run? The tile list goes over the SMs in waves: every tile of a
// launch has the same k-blocks and the same math, and CTA c takes tiles c, c + grid, ..., so wave w is tiles
// w*grid .. w*grid+grid-1 and its CTAs share HBM and L2 evenly. A wave costs the soft maximum of its math and
// its memory time; only the start (prologue, first load) and the end (last epilogue) add.
#pragma once
#include <cstdint>

#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/prediction.hpp"
#include "sim/gemm_shape.hpp"
#include "sim/kblock.hpp"
#include "sim/memory.hpp"
#include "sim/waves.hpp"

namespace moe::sim {

struct GemmTime {
  double seconds = 0;
  double hz = 0;                // SM clock it settles at
  double start = 0, end = 0;    // of which prologue and first load; last epilogue
  double math = 0, memory = 0;  // what the waves would need of each alone
  double tail = 0;              // seconds in which some SM has no tile
  double tensor_active = 0;     // share of SM cycles in which the tensor pipe works
  double shared_bytes = 0;      // written by TMA and read by the math warps
  std::int64_t tiles = 0, grid = 0;
  Traffic traffic;
  KblockCost kblock;
  Limit limit = Limit::hbm;

  /// `wave.count` waves, each of which needs `math_s` and `memory_s` alone and takes `wave_s`.
  void add_waves(const Wave& wave, double math_s, double memory_s, double wave_s, int sms);
};

/// `pairs` are the (token, slot) rows of the problem, which bound the grid. 0 seconds without them.
GemmTime schedule_gemm(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load,
                       std::int64_t pairs);

/// (math^p + memory^p)^(1/p): the larger one, and a little more where both are close.
double soft_maximum(double math, double memory, double p);

}  // namespace moe::sim
