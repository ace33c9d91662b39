#include "sim/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "sim/counts.hpp"
#include "sim/instruction.hpp"
#include "sim/layer.hpp"
#include "sim/reason.hpp"
#include "sim/schedule.hpp"
#include "sim/tiles.hpp"
#include "sim/uncertainty.hpp"

namespace moe::sim {
namespace {

/// The model describes one family of kernels: the built-in one.
constexpr std::string_view kModelledKernel = "moeproof";

/// Sums over the GEMMs of a problem, from which the fractions follow.
struct Totals {
  double useful_macs = 0, rows = 0, slots = 0;  // slots: rows that tiles have room for
  double ideal = 0, taken = 0;                  // tensor cycles at full rate, cycles of the instructions
  double busy_seconds = 0;                      // tensor pipe of all SMs / SMs
  double tail = 0;                              // seconds

  void add(const GemmShape& gemm, const ExpertLoad& load, const GemmTime& time) {
    const double tile_kblocks = double(time.tiles) * double(gemm.kblocks());
    rows += double(load.total());
    slots += double(time.tiles / std::max<std::int64_t>(gemm.panels(), 1)) * gemm.tile.block_m;
    useful_macs += double(load.total()) * double(gemm.n) * double(gemm.k);
    ideal += tile_kblocks * time.kblock.tensor_ideal;
    taken += tile_kblocks * time.kblock.instruction;
    busy_seconds += time.tensor_active * time.seconds;
    tail += time.tail;
  }
};

void add_part(Prediction& prediction, const Part& part) {
  prediction.parts.push_back(part);
  prediction.seconds += part.seconds;
}

void add_gemm(Prediction& prediction, Totals& totals, const Problem& problem, const Hardware& hardware,
              const GemmShape& gemm, const ExpertLoad& load) {
  const GemmTime time = schedule_gemm(hardware, gemm, load, problem.shape.pairs());
  add_part(prediction, {gemm.name, time.seconds, time.limit});
  totals.add(gemm, load, time);
  prediction.waves += double(time.tiles) / hardware.sms;
  prediction.hbm_bytes += time.traffic.hbm();
  prediction.l2_bytes += time.traffic.l2();
  prediction.shared_bytes += time.shared_bytes;
  prediction.bank_conflicts += time.bank_conflicts;
  prediction.counts += gemm_counts(gemm, load, problem.shape.pairs(), hardware.sms);
}

void add_small(Prediction& prediction, const Hardware& hardware, const Elementwise& kernel) {
  const Part part = part_of(hardware, kernel);
  add_part(prediction, part);
  (part.limit == Limit::hbm ? prediction.hbm_bytes : prediction.l2_bytes) += kernel.read + kernel.written;
}

/// The chain of launches of moe_layer or grouped_gemm.
void add_chain(Prediction& prediction, Totals& totals, const Problem& problem, const Hardware& hardware,
               const std::vector<GemmShape>& gemms, const ExpertLoad& load) {
  const std::int64_t rows = load.total();
  const auto add_all = [&](const std::vector<Elementwise>& kernels) {
    for (const Elementwise& kernel : kernels) add_small(prediction, hardware, kernel);
  };
  add_all(kernels_before(problem, rows));
  for (const GemmShape& gemm : gemms) {
    if (&gemm != &gemms.front()) add_all(kernels_between(problem, rows));
    add_gemm(prediction, totals, problem, hardware, gemm, load);
  }
  add_all(kernels_behind(problem, rows));
}

void add_fractions(Prediction& prediction, const Totals& totals) {
  if (prediction.seconds <= 0 || totals.slots <= 0) return;
  prediction.tensor_active = totals.busy_seconds / prediction.seconds;
  prediction.useful_flop = totals.useful_macs / double(prediction.counts.macs());
  prediction.issue_efficiency = totals.ideal / totals.taken;
  prediction.padding = 1 - totals.rows / totals.slots;
  prediction.tail = totals.tail / prediction.seconds;
}

}  // namespace

ExpertLoad local_load(const Problem& problem, const Routing& routing) {
  const int count = problem.shape.local_experts();
  return routing.load(problem.rank * count, count);
}

Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware,
                   const ExpertLoad& load) {
  if (choice.kernel != kModelledKernel)
    throw BadInput(fmt::format("kernel '{}' has no model; {} has", choice.kernel, kModelledKernel));
  Prediction prediction;
  if (launches_nothing(problem, load)) {
    prediction.reason = "no rows: nothing is launched";
    return prediction;
  }
  Totals totals;
  const std::vector<GemmShape> gemms = gemm_shapes(problem, resolve_tiles(choice, load));
  if (gemms.empty()) {
    add_small(prediction, hardware, kernel_of_op(problem, load.total()));
  } else {
    add_chain(prediction, totals, problem, hardware, gemms, load);
  }
  const double gaps = double(prediction.parts.size() - 1) * hardware.dependent_launch_s;
  add_part(prediction, {"launch", hardware.graph_node_s + gaps, Limit::launch});
  add_fractions(prediction, totals);
  const auto longest = std::max_element(prediction.parts.begin(), prediction.parts.end(),
                                        [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
  prediction.limit = longest->limit;
  prediction.uncertainty = uncertainty(prediction);
  prediction.reason = reason(prediction, *longest);
  return prediction;
}

Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware,
                   const Routing& routing) {
  return predict(problem, choice, hardware, local_load(problem, routing));
}

Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware) {
  if (problem.shape.tokens == 0) return predict(problem, choice, hardware, ExpertLoad{});
  return predict(problem, choice, hardware, routing_of(problem));
}

}  // namespace moe::sim
