#include "sim/uncertainty.hpp"

namespace moe::sim {
namespace {

double width_of(const Part& part) {
  if (part.limit == Limit::launch) return 0;
  if (part.name.find("gemm") == std::string::npos) return kSmallKernelWidth;
  return part.limit == Limit::hbm ? kHbmGemmWidth : kOtherGemmWidth;
}

}  // namespace

double uncertainty(const Prediction& prediction) {
  double seconds = 0;
  for (const Part& part : prediction.parts) seconds += width_of(part) * part.seconds;
  return prediction.seconds > 0 ? seconds / prediction.seconds : 0;
}

}  // namespace moe::sim
