// What does the model say of each GEMM by itself, without the launches and small kernels around it? What a
// counter of one launch is held against.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/problem.hpp"
#include "sim/schedule.hpp"

namespace moe::sim {

struct GemmPrediction {
  std::string name;  // gemm1, gemm2
  GemmTime time;
  Counts counts;
};

/// In launch order; the arguments as of sim::predict.
std::vector<GemmPrediction> predict_gemms(const Problem& problem, const Choice& choice,
                                          const Hardware& hardware, const ExpertLoad& load);

}  // namespace moe::sim
