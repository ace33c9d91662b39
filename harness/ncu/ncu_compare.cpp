#include "harness/ncu/ncu_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/record.hpp"
#include "harness/units.hpp"
#include "sim/predict.hpp"
#include "sim/predict_gemms.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

constexpr double kBytesWidth = 0.02;    // relative, of bytes from DRAM
constexpr double kPassesWidth = 0.001;  // a compiler may read a word again
constexpr double kActivePoints = 3;     // of the tensor pipe's activity
constexpr double kActiveRelative = 0.15;
constexpr int kWarpsPerWarpgroup = 4;  // the pipe counts a wgmma once for each

bool is_gemm(const std::string& stage) { return stage.find("gemm") != std::string::npos; }

/// A GEMM of the case by itself, and how well its time is known.
struct Expected {
  sim::GemmPrediction gemm;
  double uncertainty = 0;
  double instructions() const {
    return double(kWarpsPerWarpgroup * gemm.counts.wgmma_total() + gemm.counts.mma);
  }
};

std::vector<Expected> expected_gemms(const Case& trial, const Hardware& hardware) {
  const ExpertLoad load = sim::local_load(trial.problem, routing_of(trial.problem));
  std::vector<Expected> all;
  for (const auto& gemm : sim::predict_gemms(trial.problem, trial.choice, hardware, load))
    all.push_back({gemm, gemm.time.limit == Limit::hbm ? sim::kHbmGemmWidth : sim::kOtherGemmWidth});
  return all;
}

/// Stage names of one run in launch order: the parts of the prediction that are kernels.
std::vector<std::string> stages_of(const Case& trial, const Hardware& hardware) {
  std::vector<std::string> stages;
  for (const Part& part : sim::predict(trial.problem, trial.choice, hardware).parts)
    if (part.limit != Limit::launch) stages.push_back(part.name);
  return stages;
}

/// The table's line of each GEMM, by its stage; fewer where one is missing.
std::vector<const NcuLaunch*> table_launches(const std::vector<NcuLaunch>& launches, const Case& trial,
                                             const std::vector<Expected>& due) {
  std::vector<const NcuLaunch*> gemms;
  for (const Expected& e : due)
    for (const NcuLaunch& launch : launches)
      if (launch.layout == name(trial.choice.layout) && launch.stage == e.gemm.name) {
        gemms.push_back(&launch);
        break;
      }
  return gemms;
}

std::vector<const NcuLaunch*> triton_launches(const std::vector<NcuLaunch>& launches) {
  std::vector<const NcuLaunch*> gemms;
  for (const NcuLaunch& launch : launches)
    if (launch.kernel.find("fused_moe_kernel") != std::string::npos) gemms.push_back(&launch);
  return gemms;
}

/// Built-in kernels share one name, so that their order tells the stages. A check runs the layer more than
/// once, and with --layout all in other layouts too: the first run whose first GEMM executes the due
/// instructions counts, else the first.
std::vector<const NcuLaunch*> own_launches(const std::vector<NcuLaunch>& launches,
                                           const std::vector<std::string>& stages, double instructions,
                                           std::string_view where) {
  std::vector<const NcuLaunch*> own;
  for (const NcuLaunch& launch : launches)
    if (launch.kernel.find("moe_kernel") != std::string::npos) own.push_back(&launch);
  if (own.empty() || own.size() % stages.size() != 0)
    throw BadInput(
        fmt::format("{}: {} launches of built-in kernels; a run of the case has {} ({}), so that a whole "
                    "number of runs was due: profile the case by itself",
                    where, own.size(), stages.size(), fmt::join(stages, ", ")));
  std::vector<const NcuLaunch*> first;
  for (std::size_t run = 0; run < own.size(); run += stages.size()) {
    std::vector<const NcuLaunch*> gemms;
    for (std::size_t i = 0; i < stages.size(); ++i)
      if (is_gemm(stages[i])) gemms.push_back(own[run + i]);
    if (!gemms.empty() && gemms[0]->value(metric::kTensorInstructions) == instructions) return gemms;
    if (first.empty()) first = gemms;
  }
  return first;
}

std::string off_by(double predicted, double counted) {
  return counted > 0 ? fmt::format("{:+.1f} %", 100 * (predicted / counted - 1)) : "";
}

NcuQuantity quantity(std::string name, std::string unit, std::optional<double> predicted,
                     std::optional<double> counted) {
  NcuQuantity q{std::move(name), std::move(unit), predicted, counted, "", true};
  if (!counted)
    q.verdict = "not counted";
  else if (!predicted)
    q.verdict = "no prediction";
  else
    q.verdict = off_by(*predicted, *counted);
  return q;
}
bool both(const NcuQuantity& q) { return q.predicted && q.counted; }

NcuQuantity instructions(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q =
      quantity("tensor instructions", "", e.instructions(), launch.value(metric::kTensorInstructions));
  if (!both(q)) return q;
  q.good = *q.predicted == *q.counted;
  if (q.good) q.verdict = "equal";
  return q;
}

NcuQuantity dram(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q =
      quantity("DRAM bytes read", "B", e.gemm.time.traffic.hbm(), launch.value(metric::kDramRead));
  if (!both(q)) return q;
  q.good = std::abs(*q.predicted / *q.counted - 1) <= kBytesWidth;
  return q;
}

NcuQuantity activity(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q = quantity("tensor pipe active", "%", 100 * e.gemm.time.tensor_active,
                           launch.value(metric::kTensorActive));
  if (!both(q)) return q;
  const double points = *q.predicted - *q.counted;
  q.verdict = fmt::format("{:+.1f} points", points);
  q.good = std::abs(points) <= std::max(kActivePoints, kActiveRelative * *q.counted);
  return q;
}

/// Cycles that the pipe worked, as seconds of all SMs: activity times time. Free of what the rest of the time
/// was.
NcuQuantity work(const Expected& e, const NcuLaunch& launch) {
  const auto active = launch.value(metric::kTensorActive), time = launch.value(metric::kTime);
  std::optional<double> counted;
  if (active && time && *active > 0) counted = *active / 100 * *time;
  NcuQuantity q =
      quantity("tensor pipe's own time", "s", e.gemm.time.tensor_active * e.gemm.time.seconds, counted);
  if (both(q)) q.good = std::abs(*q.predicted / *q.counted - 1) <= kActiveRelative;
  return q;
}

NcuQuantity time(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q = quantity("time", "s", e.gemm.time.seconds, launch.value(metric::kTime));
  if (both(q)) q.good = std::abs(*q.predicted / *q.counted - 1) <= e.uncertainty;
  return q;
}

NcuQuantity rate(const Expected& e, const NcuLaunch& launch) {
  const auto bytes = launch.value(metric::kDramRead), time = launch.value(metric::kTime);
  std::optional<double> counted, predicted;
  if (bytes && time && *time > 0) counted = *bytes / *time;
  if (e.gemm.time.seconds > 0) predicted = e.gemm.time.traffic.hbm() / e.gemm.time.seconds;
  return quantity("DRAM rate", "B/s", predicted, counted);
}

/// Both of shared memory; empty where the model does not know the kernel's accesses, as of Triton's.
std::optional<double> of_shared(const Expected& e, std::int64_t count) {
  return e.gemm.counts.shared_wavefronts > 0 ? std::optional<double>(double(count)) : std::nullopt;
}

NcuQuantity passes(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q = quantity("passes of shared memory", "", of_shared(e, e.gemm.counts.shared_wavefronts),
                           launch.shared_passes());
  if (!both(q)) return q;
  q.good = std::abs(*q.predicted - *q.counted) <= kPassesWidth * *q.counted;
  if (*q.predicted == *q.counted) q.verdict = "equal";
  return q;
}

NcuQuantity conflicts(const Expected& e, const NcuLaunch& launch) {
  NcuQuantity q =
      quantity("bank conflicts", "", of_shared(e, e.gemm.counts.bank_conflicts), launch.bank_conflicts());
  if (!both(q)) return q;
  q.good = *q.predicted == *q.counted;
  if (q.good)
    q.verdict = "equal";
  else if (const auto all = launch.shared_passes(); all && *all > 0)
    q.verdict = fmt::format("{:+.1f} % of all passes", 100 * (*q.predicted - *q.counted) / *all);
  return q;
}

const NcuQuantity& find(const NcuStage& stage, std::string_view name) {
  return *std::find_if(stage.quantities.begin(), stage.quantities.end(),
                       [&](const NcuQuantity& q) { return q.name == name; });
}

/// Terms in the order in which one is the reason of the next.
std::string explain(const NcuStage& stage, const Expected& e) {
  const NcuQuantity &count = find(stage, "tensor instructions"), &bytes = find(stage, "DRAM bytes read"),
                    &seconds = find(stage, "time"), &own = find(stage, "tensor pipe's own time"),
                    &speed = find(stage, "DRAM rate");
  if (!count.good)
    return "the kernel executes other tensor instructions than the model: its tile or its skipped work "
           "differs";
  if (!bytes.good) return "the instructions are right, the bytes are not: what L2 keeps between tiles";
  if (!both(seconds)) return "the file has no time";
  const double ratio = *seconds.predicted / *seconds.counted;
  if (seconds.good)
    return fmt::format("within the stated {:.0f} %: counts and bytes are right and the time is {:+.1f} % off",
                       100 * e.uncertainty, 100 * (ratio - 1));
  if (!own.good && both(own))
    return fmt::format(
        "the tensor pipe works {:.2f} of the predicted time of its own: cycles an instruction, or the clock",
        *own.counted / *own.predicted);
  if (e.gemm.time.limit == Limit::hbm && both(speed))
    return fmt::format(
        "counts, bytes and the tensor pipe's own time are right: the rate of DRAM is not, {:.2f} TB/s for a "
        "predicted {:.2f}; Nsight Compute's time starts with cold caches and no kernel in front",
        *speed.counted / 1e12, *speed.predicted / 1e12);
  return "counts, bytes and the tensor pipe's own time are right: what is off lies between them, in waiting "
         "(prologue, "
         "k-blocks, epilogue)";
}

NcuStage compare_stage(const Expected& e, const NcuLaunch& launch) {
  NcuStage stage{e.gemm.name,
                 {instructions(e, launch), dram(e, launch), rate(e, launch), activity(e, launch),
                  work(e, launch), passes(e, launch), conflicts(e, launch), time(e, launch)},
                 ""};
  stage.why = explain(stage, e);
  return stage;
}

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "-";
  if (unit == "s") return seconds_text(*value);
  if (unit == "B/s") return fmt::format("{:.2f} TB/s", *value / 1e12);
  if (unit == "%") return fmt::format("{:.2f} %", *value);
  return fmt::format("{:.0f}", *value);
}

}  // namespace

std::vector<NcuStage> compare_ncu(const std::vector<NcuLaunch>& launches, const Case& trial,
                                  const Hardware& hardware, std::string_view where) {
  const std::vector<Expected> due = expected_gemms(trial, hardware);
  if (due.empty()) throw BadInput(fmt::format("{}: the case launches no GEMM", where));
  const bool table = !launches.empty() && !launches[0].layout.empty();
  const auto triton = triton_launches(launches);
  const auto gemms = table ? table_launches(launches, trial, due)
                     : !triton.empty()
                         ? triton
                         : own_launches(launches, stages_of(trial, hardware), due[0].instructions(), where);
  if (gemms.size() < due.size())
    throw BadInput(fmt::format("{}: {} GEMM launches of layout {}, the case has {}", where, gemms.size(),
                               name(trial.choice.layout), due.size()));
  std::vector<NcuStage> stages;
  for (std::size_t i = 0; i < due.size(); ++i) stages.push_back(compare_stage(due[i], *gemms[i]));
  return stages;
}

std::string ncu_text(const std::vector<NcuStage>& stages, const std::string& title) {
  std::string text = title + "\n";
  for (const NcuStage& stage : stages) {
    text += fmt::format("\n{:<26}{:>16}{:>16}   {}\n", stage.stage, "predicted", "counted", "verdict");
    for (const NcuQuantity& q : stage.quantities)
      text += fmt::format("  {:<24}{:>16}{:>16}   {}{}\n", q.name, value_text(q.predicted, q.unit),
                          value_text(q.counted, q.unit), q.verdict, q.good ? "" : "  (off)");
    text += "  " + stage.why + "\n";
  }
  return text;
}

std::string ncu_json(const std::vector<NcuStage>& stages, const std::string& case_line,
                     const std::string& hardware) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["tool"] = {
      {"name", "moeproof"}, {"version", tool_version()}, {"command", "compare"}, {"hardware", hardware}};
  j["ncu"]["case"] = case_line;
  for (const NcuStage& stage : stages) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const NcuQuantity& q : stage.quantities) {
      nlohmann::ordered_json one = {
          {"name", q.name}, {"unit", q.unit}, {"verdict", q.verdict}, {"good", q.good}};
      if (q.predicted) one["predicted"] = *q.predicted;
      if (q.counted) one["counted"] = *q.counted;
      list.push_back(one);
    }
    j["ncu"]["stages"].push_back({{"stage", stage.stage}, {"quantities", list}, {"why", stage.why}});
  }
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace moe::harness
