#include "sim/reason.hpp"

#include <fmt/format.h>

namespace moe::sim {
namespace {

std::string held_by(const Prediction& p, Limit limit) {
  switch (limit) {
    case Limit::hbm:
      return fmt::format(
          "HBM: {:.1f} MB are read or written in all, and the tensor pipe works {:.0f} % of the time",
          p.hbm_bytes / 1e6, 100 * p.tensor_active);
    case Limit::l2:
      return fmt::format("L2: {:.1f} MB are served from it beside {:.1f} MB from HBM", p.l2_bytes / 1e6,
                         p.hbm_bytes / 1e6);
    case Limit::shared_memory:
      return fmt::format("shared memory: {:.1f} MB of operand reads", p.shared_bytes / 1e6);
    case Limit::tensor:
      return fmt::format("the tensor pipe, {:.0f} % active, of whose work {:.0f} % is useful",
                         100 * p.tensor_active, 100 * p.useful_flop);
    case Limit::issue:
      return fmt::format("instruction issue: conversions and loads leave the tensor pipe {:.0f} % active",
                         100 * p.tensor_active);
    case Limit::latency:
      return fmt::format("latency: the chain of start, k-blocks and epilogue of {:.1f} tiles an SM", p.waves);
    case Limit::launch:
      return "the launches themselves";
  }
  return "";
}

}  // namespace

std::string reason(const Prediction& prediction, const Part& longest) {
  return fmt::format("{} takes {:.0f} % of {:.1f} us and is held by {}.", longest.name,
                     100 * longest.seconds / prediction.seconds, 1e6 * prediction.seconds,
                     held_by(prediction, longest.limit));
}

}  // namespace moe::sim
