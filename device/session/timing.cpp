#include "device/session/timing.hpp"

#include <algorithm>
#include <chrono>

#include "device/session/clock_watch.hpp"

namespace moe::device {
namespace {

/// L2 of a full GH100 die (NVIDIA H100 Tensor Core GPU Architecture whitepaper: 60 MB; H100 and H200 enable
/// 50).
constexpr std::int64_t kLargestL2Bytes = 60'000'000;
constexpr int kRunsPerSample = 8, kWarmupSamples = 2, kMostWeightSets = 32;

using Launch = std::function<void(int run)>;  // the run's number; its weight set is run % sets

/// Runs of `launch` between two events, as a graph or one by one.
class Sampler {
 public:
  Sampler(Machine& machine, const TimingPlan& plan, int runs, Launch launch)
      : machine_(machine), runs_(runs), launch_(std::move(launch)) {
    if (plan.mode == RunMode::graph) graph_ = machine.record([this] { all_runs(); });
  }
  /// Seconds of one run; negative where the machine has no clock.
  double sample() {
    const double seconds = machine_.time_of([this] { graph_ < 0 ? all_runs() : machine_.replay(graph_); });
    return seconds < 0 ? seconds : seconds / runs_;
  }

 private:
  void all_runs() {
    for (int run = 0; run < runs_; ++run) launch_(run);
  }

  Machine& machine_;
  int runs_, graph_ = -1;
  Launch launch_;
};

using Clock = std::chrono::steady_clock;

std::vector<double> samples_of(Machine& machine, const TimingPlan& plan, int runs, Clock::time_point end,
                               Launch launch) {
  Sampler sampler(machine, plan, runs, std::move(launch));
  std::vector<double> seconds;
  for (int i = 0; i < kWarmupSamples; ++i) {
    if (sampler.sample() < 0) return {};
  }
  for (int i = 0; i < plan.samples && (i < 3 || Clock::now() < end); ++i) seconds.push_back(sampler.sample());
  return seconds;
}

}  // namespace

int weight_sets_for(std::int64_t bytes) {
  if (bytes <= 0) return 1;
  return int(std::min<std::int64_t>(1 + (2 * kLargestL2Bytes + bytes - 1) / bytes, kMostWeightSets));
}

Measurement time_pipeline(Machine& machine, Pipeline& pipeline, const TimingPlan& plan) {
  Measurement measured;
  measured.cold = plan.cold;
  measured.graph = plan.mode == RunMode::graph;
  measured.device = machine.name();
  if (pipeline.stages.empty() || machine.time_of([] {}) < 0) return measured;
  for (const Stage& stage : pipeline.stages)
    stage.launch(LaunchPlan{}, false);  // fills the plan that is read below
  machine.synchronize();
  int sets = 1;
  if (plan.cold && pipeline.weight_bytes && pipeline.add_weight_sets) {
    sets = weight_sets_for(pipeline.weight_bytes());
    pipeline.add_weight_sets(sets);
  }
  const int runs = std::max(kRunsPerSample, sets);
  const auto run_of = [&](int run) { return LaunchPlan{false, run % sets}; };
  const auto now = Clock::now();
  const auto budget =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plan.time_limit_s));
  const auto whole_end = now + (plan.per_stage ? budget / 2 : budget);
  ClockWatch clock(machine.clock_reader());
  measured.seconds = samples_of(machine, plan, runs, whole_end, [&](int run) {
    bool dependent = false;
    for (const Stage& stage : pipeline.stages) {
      stage.launch(run_of(run), dependent);
      dependent = true;
    }
  });
  measured.sm_clock_hz = clock.median();  // of the whole op: stages alone load the card otherwise
  if (!plan.per_stage) return measured;
  const auto share = budget / 2 / Clock::rep(pipeline.stages.size());
  for (const Stage& stage : pipeline.stages) {
    measured.stages.push_back({stage.name, samples_of(machine, plan, runs, Clock::now() + share,
                                                      [&](int run) { stage.launch(run_of(run), run > 0); })});
  }
  return measured;
}

}  // namespace moe::device
