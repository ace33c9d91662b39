// Why does a prediction take the time it takes? One sentence for a reader who knows the hardware.
#pragma once
#include <string>

#include "fixtures/problem/prediction.hpp"

namespace moe::sim {

std::string reason(const Prediction& prediction, const Part& longest);

}  // namespace moe::sim
