#include "harness/lanes.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "device/cuda/probe.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/infer/finder.hpp"

namespace moe::harness {
namespace {

/// One executor, and the plan that asks it. Lives in its lane's thread, since a worker process ends with the
/// thread that began it.
struct Lane {
  ExecutorChoice chosen;
  std::unique_ptr<SemanticsFinder> finder;
  RunPlan plan;

  Lane(const Suite& suite, int lanes, int card) : plan(suite.plan) {
    const RunOptions& run = suite.options.run;
    const bool emulated = run.executor == "emulated";  // one emulated SM a process
    plan.threads = std::max(1, suite.plan.threads / lanes);
    chosen = choose_executor(
        {run.executor, plan.threads, suite.hardware.sms, run.first_schedule, run.semantics, card},
        run.isolate || emulated, run.case_time_s);
    if (chosen.executor == nullptr) throw MachineFailure(chosen.why_not);
    finder = std::make_unique<SemanticsFinder>(*chosen.executor, plan.threads);
    plan.executor = chosen.executor.get();
    plan.finder = finder.get();
    plan.hardware = &suite.hardware;
    plan.isolated = plan.isolated || emulated;
    plan.room = {suite.plan.room.host / lanes, chosen.card_bytes / lanes};
  }
};

/// The first exception of all lanes; behind it none begins another case.
class FirstFailure {
 public:
  void take(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  bool any() {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

std::vector<int> lanes_of(const RunOptions& run) {
  int cards = 1;
  if (run.executor == "cuda" && run.all_cards) cards = std::max(1, int(device::probe_driver().gpus.size()));
  std::vector<int> lanes;
  for (int job = 0; job < run.jobs; ++job)
    for (int card = 0; card < cards; ++card) lanes.push_back(run.all_cards ? card : run.card);
  return lanes;
}

void run_in_lanes(const Suite& suite, const std::vector<int>& cards, const LaneWork& work) {
  FirstFailure failure;
  const auto work_on = [&](int card) {
    try {
      const Lane lane(suite, int(cards.size()), card);
      while (!failure.any()) {
        const std::optional<std::size_t> number = work.next();
        if (!number) return;
        work.run(lane.plan, *number);
      }
    } catch (...) {
      failure.take(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  for (const int card : cards) threads.emplace_back(work_on, card);
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
}

}  // namespace moe::harness
