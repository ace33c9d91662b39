#include "sim/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "sim/counts.hpp"
#include "sim/cutlass_dense.hpp"
#include "sim/instruction.hpp"
#include "sim/layer.hpp"
#include "sim/predict_gemms.hpp"
#include "sim/reason.hpp"
#include "sim/schedule.hpp"
#include "sim/tiles.hpp"
#include "sim/triton_moe.hpp"
#include "sim/uncertainty.hpp"

namespace moe::sim {
namespace {

/// A kernel family as the sum needs it.
struct Family {
  std::vector<Elementwise> before, between, behind;
  std::vector<GemmShape> gemms;
  std::function<GemmTime(const GemmShape&)> time;
  std::function<Counts(const GemmShape&)> counts;
  double gap_s = 0;  // between two launches
};

Family own_family(const Problem& p, const Choice& choice, const Hardware& hw, const ExpertLoad& load) {
  const std::int64_t rows = load.total(), pairs = p.shape.pairs();
  return {kernels_before(p, rows, choice.kernel),
          kernels_between(p, rows),
          kernels_behind(p, rows),
          gemm_shapes(p, resolve_tiles(choice, p, load)),
          [&hw, &load, pairs](const GemmShape& g) { return schedule_gemm(hw, g, load, pairs); },
          [&hw, &load, pairs](const GemmShape& g) { return gemm_counts(g, load, pairs, hw.sms); },
          hw.dependent_launch_s};
}

/// Its launches are plain nodes of a graph: each waits for the one before.
Family triton_family(const Problem& p, const Choice& choice, const Hardware& hw, const ExpertLoad& load) {
  const std::int64_t rows = load.total(), pairs = p.shape.pairs();
  return {triton_before(p),
          triton_between(p, rows),
          triton_behind(p, rows),
          triton_gemm_shapes(p, resolve_tiles(choice, p, load)),
          [&hw, &load, pairs](const GemmShape& g) { return schedule_triton_gemm(hw, g, load, pairs); },
          [&load, pairs](const GemmShape& g) { return triton_counts(g, load, pairs); },
          hw.graph_node_s};
}

Family dense_family(const Problem& p, const Choice& choice, const Hardware& hw, const ExpertLoad& load) {
  const std::int64_t rows = load.total();
  return {{},
          {},
          {},
          {dense_gemm_shape(p, choice)},
          [&hw, rows](const GemmShape& g) { return schedule_dense_gemm(hw, g, rows); },
          [&hw, rows](const GemmShape& g) { return dense_counts(g, rows, hw.sms); },
          hw.graph_node_s};
}

using MakeFamily = Family (*)(const Problem&, const Choice&, const Hardware&, const ExpertLoad&);

MakeFamily family_of(const std::string& kernel) {
  if (kernel == kOwnKernel || kernel == kFusedKernel || kernel == kGroupedKernel) return own_family;
  if (kernel == kTritonKernel) return triton_family;
  if (kernel == kCutlassDenseKernel) return dense_family;
  throw BadInput(fmt::format("kernel '{}' has no model; {}, {}, {}, {} and {} have", kernel, kOwnKernel,
                             kFusedKernel, kGroupedKernel, kTritonKernel, kCutlassDenseKernel));
}

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

void add_gemm(Prediction& prediction, Totals& totals, const Hardware& hardware, const Family& family,
              const GemmShape& gemm, const ExpertLoad& load) {
  const GemmTime time = family.time(gemm);
  add_part(prediction, {gemm.name, time.seconds, time.limit});
  totals.add(gemm, load, time);
  prediction.waves += double(time.tiles) / hardware.sms;
  prediction.hbm_bytes += time.traffic.hbm();
  prediction.l2_bytes += time.traffic.l2();
  prediction.shared_bytes += time.shared_bytes;
  prediction.counts += family.counts(gemm);
  prediction.bank_conflicts = prediction.counts.bank_conflicts;
}

void add_small(Prediction& prediction, const Hardware& hardware, const Elementwise& kernel) {
  const Part part = part_of(hardware, kernel);
  add_part(prediction, part);
  (part.limit == Limit::hbm ? prediction.hbm_bytes : prediction.l2_bytes) += kernel.read + kernel.written;
}

/// The chain of launches of moe_layer or grouped_gemm.
void add_chain(Prediction& prediction, Totals& totals, const Hardware& hardware, const Family& family,
               const ExpertLoad& load) {
  const auto add_all = [&](const std::vector<Elementwise>& kernels) {
    for (const Elementwise& kernel : kernels) add_small(prediction, hardware, kernel);
  };
  add_all(family.before);
  for (const GemmShape& gemm : family.gemms) {
    if (&gemm != &family.gemms.front()) add_all(family.between);
    add_gemm(prediction, totals, hardware, family, gemm, load);
  }
  add_all(family.behind);
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

std::vector<GemmPrediction> predict_gemms(const Problem& problem, const Choice& choice,
                                          const Hardware& hardware, const ExpertLoad& load) {
  std::vector<GemmPrediction> all;
  if (launches_nothing(problem, load)) return all;
  const Family family = family_of(choice.kernel)(problem, choice, hardware, load);
  for (const GemmShape& gemm : family.gemms)
    all.push_back({gemm.name, family.time(gemm), family.counts(gemm)});
  return all;
}

ExpertLoad local_load(const Problem& problem, const Routing& routing) {
  const int count = problem.shape.local_experts();
  return routing.load(problem.rank * count, count);
}

Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware,
                   const ExpertLoad& load) {
  const MakeFamily make = family_of(choice.kernel);
  Prediction prediction;
  if (launches_nothing(problem, load)) {
    prediction.reason = "no rows: nothing is launched";
    return prediction;
  }
  Totals totals;
  const Family family = make(problem, choice, hardware, load);
  if (problem.op != Op::moe_layer && (choice.kernel == kFusedKernel || choice.kernel == kGroupedKernel))
    throw BadInput(fmt::format("predict: no model of op {} of {}", name(problem.op), choice.kernel));
  if (family.gemms.empty()) {
    if (choice.kernel != kOwnKernel)
      throw BadInput(fmt::format("predict: no model of op {} of {}", name(problem.op), choice.kernel));
    add_small(prediction, hardware, kernel_of_op(problem, load.total()));
  } else {
    add_chain(prediction, totals, hardware, family, load);
  }
  const double gaps = double(prediction.parts.size() - 1) * family.gap_s;
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
