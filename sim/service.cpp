#include "sim/service.hpp"

#include <algorithm>

namespace moe::sim {
namespace {

/// Calls `f` with the assumptions that make a step short, usual and long.
template <class F>
Range over(const ServiceAssumptions& a, F&& f) {
  struct Point {
    double bytes, efficiency, kernels, latency, nvlink, host, eager;
  };
  const Point least{a.weight_bytes.least, a.efficiency.most, a.kernels.least, a.all_reduce_latency.least,
                    a.nvlink.most,        a.host.least,      a.eager.least};
  const Point middle{
      a.weight_bytes.middle, a.efficiency.middle, a.kernels.middle, a.all_reduce_latency.middle,
      a.nvlink.middle,       a.host.middle,       a.eager.middle};
  const Point most{a.weight_bytes.most, a.efficiency.least, a.kernels.most, a.all_reduce_latency.most,
                   a.nvlink.least,      a.host.most,        a.eager.most};
  return {f(least), f(middle), f(most)};
}

struct Rates {
  double hbm, flop;
};

/// A group of kernels: bytes and FLOP at the assumed share of the rates, whichever is longer, and their
/// launches.
double stage(const Rates& rates, double bytes, double flop, double efficiency) {
  return std::max(bytes / rates.hbm, flop / rates.flop) / efficiency;
}

}  // namespace

Range operator+(const Range& a, const Range& b) {
  return {a.least + b.least, a.middle + b.middle, a.most + b.most};
}
Range operator*(double factor, const Range& r) {
  return {factor * r.least, factor * r.middle, factor * r.most};
}

StepTime step_time(const ServiceModel& m, const ServiceLoad& load, const Range& moe_layer,
                   const Hardware& hardware, const ServiceAssumptions& a) {
  double best = 0;
  for (const auto& [kb, rate] : hardware.hbm_bytes_per_s_by_inflight.points) best = std::max(best, rate);
  const Rates rates{best, hardware.sms * hardware.fp8_flop_per_cycle * hardware.tensor_hz};
  const double tp = load.tp, rows = load.sequences * load.tokens;
  const double kv_ranks = m.kv_on_every_rank ? 1 : std::min(tp, double(std::max(m.kv_heads, 1)));
  const double kv = load.sequences * load.context * m.kv_bytes / kv_ranks;
  const double seen = load.context + load.tokens / 2;  // a prompt's tokens see those in front of them
  const double launch = hardware.graph_node_s + hardware.small_kernel_s;
  const int all_reduces = m.attention_layers + m.moe_layers + m.dense_layers + m.other_layers;
  StepTime step;
  step.moe = double(m.moe_layers) * moe_layer;
  step.attention = over(a, [&](const auto& at) {
    const double weights = m.attention_weights / tp;
    const double projections = stage(rates, weights * at.bytes, 2 * weights * rows, at.efficiency);
    const double scores =
        stage(rates, kv, rows * seen * m.score_flop / tp * 2, at.efficiency);  // at half the FP8 rate
    return m.attention_layers * (projections + scores + at.kernels * (launch + at.eager));
  });
  step.dense = over(a, [&](const auto& at) {
    const double dense = m.dense_weights / tp, shared = m.shared_weights / tp;
    return m.dense_layers *
               (stage(rates, dense * at.bytes, 2 * dense * rows, at.efficiency) + 4 * (launch + at.eager)) +
           m.moe_layers * stage(rates, shared * at.bytes, 2 * shared * rows, at.efficiency);
  });
  step.other = over(a, [&](const auto& at) {
    const double weights = m.other_weights / tp;
    const double bytes = weights * at.bytes + load.sequences * m.other_state_bytes / tp;
    return m.other_layers *
           (stage(rates, bytes, 2 * weights * rows, at.efficiency) + at.kernels * (launch + at.eager));
  });
  step.head = over(a, [&](const auto& at) {
    const double weights = m.vocabulary * m.hidden / tp;
    return stage(rates, 2 * weights, 2 * 2 * weights * load.sequences, at.efficiency);  // 16 bit
  });
  step.all_reduce = over(a, [&](const auto& at) {
    if (load.tp == 1) return 0.0;
    return all_reduces * (at.latency + rows * m.hidden * 2 * 2 * (tp - 1) / tp / at.nvlink);
  });
  step.host = a.host;
  const Range rest = step.attention + step.dense + step.other + step.head + step.all_reduce + step.host;
  step.total = step.moe + rest;
  const auto share = [](double moe, double others) { return moe + others > 0 ? moe / (moe + others) : 0; };
  step.share = {share(step.moe.least, rest.most), share(step.moe.middle, rest.middle),
                share(step.moe.most, rest.least)};
  return step;
}

double step_gain(double share, double layer_gain) { return 1 / (1 - share + share / (1 + layer_gain)) - 1; }

Range step_gain(const Range& share, const Range& g) {
  // a loss is larger the larger the share is
  return {step_gain(g.least < 0 ? share.most : share.least, g.least), step_gain(share.middle, g.middle),
          step_gain(g.most < 0 ? share.least : share.most, g.most)};
}

}  // namespace moe::sim
