#include "sim/conditions.hpp"

#include <algorithm>

namespace moe::sim {
namespace {

void scale(Curve& curve, double factor) {
  for (auto& point : curve.points) point.second *= factor;
}

void cap(Hardware& hw) {
  const double hz = hw.clock_by_tensor_load.at(1), slower = hz / hw.tensor_hz;
  hw.tensor_hz = hz;
  hw.clock_by_tensor_load.points = {{0, hz}};
  scale(hw.l2_bytes_per_s_by_footprint, slower);
  hw.l2_shared_bytes_per_s *= slower;
  hw.l2_write_bytes_per_s *= slower;
  hw.l2_latency_s /= slower;
}

void read_from_l2(Hardware& hw, double footprint) {
  const Curve rate{{{0, hw.l2_bytes_per_s_by_footprint.at(footprint / 1e6)}}};
  hw.hbm_bytes_per_s_by_inflight = hw.hbm_bytes_per_s_by_sms = hw.hbm_bytes_per_s_by_sms_shallow = rate;
  hw.hbm_box_fraction = 1;
  // The shortest small kernel is two dependent reads, which the card's file takes to be cold ones.
  hw.small_kernel_s = std::max(hw.small_kernel_s - 2 * (hw.hbm_latency_s - hw.l2_latency_s), 0.0);
  hw.hbm_latency_s = hw.l2_latency_s;
}

}  // namespace

double warm_capacity(const Hardware& hardware) {
  const auto& points = hardware.l2_bytes_per_s_by_footprint.points;
  return points.empty() ? 0 : points.back().first * 1e6;
}

Hardware under(Hardware hw, const Conditions& conditions, double footprint) {
  if (conditions.capped) cap(hw);
  if (conditions.warm && footprint <= warm_capacity(hw)) read_from_l2(hw, footprint);
  if (conditions.stream) hw.graph_node_s = hw.launch_s;
  return hw;
}

double footprint_bytes(const Problem& problem, const ExpertLoad& load) {
  const MoeShape& s = problem.shape;
  const double rows = double(load.total()), active = load.active(), tokens = double(s.tokens);
  const double hidden = double(s.hidden), up = double(s.up_rows()), inner = double(s.local_intermediate());
  if (problem.op == Op::grouped_gemm) {
    const double k = problem.gemm == 1 ? hidden : inner, n = problem.gemm == 1 ? up : hidden;
    return active * n * k + rows * (k + 2 * n);
  }
  return active * (up + inner) * hidden + tokens * hidden * 5 + rows * (2 * up + 3 * inner + 2 * hidden);
}

}  // namespace moe::sim
