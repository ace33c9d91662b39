// moeproof_faulty: the built-in kernels with planted faults. As an executor for `moeproof check --executor
// 'process:moeproof_faulty --fault ID'`, and to measure how surely each fault is found.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/emulator/emulated_executor.hpp"
#include "device/session/kernel_catalog.hpp"
#include "device/session/moe_session.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/worker.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/planted/card.hpp"
#include "tests/planted/measure.hpp"
#include "tests/planted/plant.hpp"
#include "tests/planted/table.hpp"

namespace moe::device {
namespace {

constexpr const char* kHelp =
    "moeproof_faulty list                              what can be planted\n"
    "moeproof_faulty --fault ID [--seed N]             an executor that speaks moeproof's process protocol\n"
    "moeproof_faulty table [--fault ID,..] [--seeds N] [--json FILE] [--markdown FILE] [--card FILE] "
    "[--ptxas DIR]\n"
    "                                                  on the emulated SM; exit 1 when a fault is missed\n"
    "moeproof_faulty clean [--schedules N]             right kernels only; exit 1 on an alarm\n"
    "moeproof_faulty_card launch [--fault ID,..] [--launches N] [--delays SEED]\n"
    "                                                  on the card; tests/planted/on_card.py drives it\n";

struct Words {
  std::string command;
  std::vector<Fault> faults;
  std::int64_t seeds = 100, schedules = 10'000, launches = 500, seed = 1, delays = 0;
  TableFiles files;
};

std::int64_t number(const std::string& option, const std::string& text) {
  std::size_t used = 0;
  std::int64_t value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || value < 0) throw BadInput(option + " takes a count, not '" + text + "'");
  return value;
}

std::vector<Fault> faults_of(const std::string& list) {
  std::vector<Fault> faults;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    const Fault fault = find_fault(word);
    if (fault == Fault::count) throw BadInput("no fault '" + word + "'; moeproof_faulty list names them");
    faults.push_back(fault);
    begin = end + 1;
  }
  return faults;
}

Words parse(const std::vector<std::string>& arguments) {
  Words w;
  std::size_t i = 0;
  if (!arguments.empty() && arguments[0][0] != '-') w.command = arguments[i++];
  for (; i < arguments.size(); i += 2) {
    const std::string& option = arguments[i];
    if (i + 1 == arguments.size()) throw BadInput(option + " needs a value");
    const std::string& value = arguments[i + 1];
    if (option == "--fault")
      w.faults = faults_of(value);
    else if (option == "--seeds")
      w.seeds = number(option, value);
    else if (option == "--seed")
      w.seed = number(option, value);
    else if (option == "--schedules")
      w.schedules = number(option, value);
    else if (option == "--launches")
      w.launches = number(option, value);
    else if (option == "--delays")
      w.delays = number(option, value);
    else if (option == "--json")
      w.files.json = value;
    else if (option == "--markdown")
      w.files.markdown = value;
    else if (option == "--card")
      w.files.card = value;
    else if (option == "--ptxas")
      w.files.ptxas = value;
    else
      throw BadInput("no option " + option);
  }
  if (w.faults.empty() && !w.command.empty())
    for (int f = 1; f < int(Fault::count); ++f)
      if (w.seeds >= 10 || !kFaults[f].heavy) w.faults.push_back(Fault(f));
  return w;
}

int list_faults() {
  for (const FaultInfo& f : kFaults)
    if (f.fault != Fault::none) fmt::print("{:6} {:36} {}\n", f.id, f.name, f.what);
  fmt::print("\n{} faults. Not possible here:\n", int(Fault::count) - 1);
  for (const AbsentFault& a : kAbsent) fmt::print("{:6} {}\n", a.id, a.why);
  return 0;
}

/// Kernels that no fault reaches would pass every case unseen: a case that runs one is refused.
class PlantedTilesOnly : public Executor {
 public:
  explicit PlantedTilesOnly(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  std::vector<KernelInfo> kernels() const override { return inner_->kernels(); }
  Opened open(const Case& c) override {
    const Choice choice = resolve_case(c).choice;
    const bool block = c.problem.quant.block();
    std::vector<TileConfig> tiles;
    const bool layer = c.problem.op == Op::moe_layer;
    if (layer || c.problem.op == Op::grouped_gemm) tiles.push_back(choice.tile);
    if (layer) tiles.push_back(choice.tile_down);
    for (const TileConfig& tile : tiles) {
      const Variant* variant = find_gemm(choice.layout, tile.block_m, tile.block_n, block);
      if (variant == nullptr || std::ranges::count(kPlantedVariants, variant->index) > 0) continue;
      Opened refused;
      refused.refusal =
          fmt::format("no fault is planted in {} (tile {}); moeproof_faulty list names each fault's case",
                      variant->name, to_string(tile));
      return refused;
    }
    return inner_->open(c);
  }

 private:
  static constexpr int kPlantedVariants[] = {MOE_PLANTED_VARIANTS};
  std::unique_ptr<Executor> inner_;
};

int serve(const Words& w) {
  if (w.faults.size() != 1) throw BadInput("--fault takes one id here");
  plant(w.faults[0]);
  EmulatedPlan plan;
  plan.arithmetic = reference::mma_step();
  plan.sms = 2;
  plan.seed = std::uint64_t(w.seed);
  PlantedTilesOnly executor(make_emulated_executor(plan));
  return harness::serve_worker(executor);
}

int clean(const Words& w, int threads) {
  const CleanRuns runs = run_clean(w.schedules, threads);
  for (const std::string& line : runs.first) fmt::print("{}\n", line);
  fmt::print("right kernels, {} schedules: {} alarms\n", runs.schedules, runs.alarms);
  return runs.alarms ? 1 : 0;
}

int run(const std::vector<std::string>& arguments) {
  const int threads = int(std::max(1u, std::thread::hardware_concurrency()));
  const Words w = parse(arguments);
  if (w.command.empty() && !w.faults.empty()) return serve(w);
  if (w.command == "list") return list_faults();
  if (w.command == "table") return print_table(measure(w.faults, int(w.seeds), threads), w.files);
  if (w.command == "clean") return clean(w, threads);
  if (w.command == "launch") return launch_on_card(w.faults, int(w.launches), std::uint32_t(w.delays));
  std::fputs(kHelp, stderr);
  return 2;
}

}  // namespace
}  // namespace moe::device

int main(int count, char** words) {
  try {
    return moe::device::run({words + 1, words + count});
  } catch (const moe::BadInput& error) {
    fmt::print(stderr, "moeproof_faulty: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "moeproof_faulty: {}\n", error.what());
    return 3;
  }
}
