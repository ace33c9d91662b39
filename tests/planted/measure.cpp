#include "tests/planted/measure.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/planted/scenario.hpp"

namespace moe::device {
namespace {

/// body(i, machine) for i in 0..count-1 on `threads` host threads, each with its own emulated machine.
void spread(std::int64_t count, int threads,
            const std::function<void(std::int64_t, const std::shared_ptr<EmulatedMachine>&)>& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    const auto machine = emulated_machine();
    for (std::int64_t i; (i = next.fetch_add(1)) < count;) body(i, machine);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
}

std::string join(const std::set<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

FaultRow measure_one(const FaultInfo& info, int seeds, const std::shared_ptr<EmulatedMachine>& machine) {
  FaultRow row;
  row.fault = info.fault;
  if (info.card_only) return row;
  const Scenario scenario(info);
  set_order(*machine, 0);
  const Seen right = scenario.run(machine, Fault::none);
  if (info.heavy) seeds = std::min(seeds, 2);
  for (int seed = 0; seed <= seeds; ++seed) {
    set_order(*machine, std::uint64_t(seed));
    Seen seen = scenario.run(machine, info.fault);
    const bool differs = seen.differs(right) && !seen.checks.contains("refused");
    if (seed == 0) {
      if (!seen.sentences.empty()) row.sentence = seen.sentences.front();
      row.deterministic = info.sentence.empty() ? differs || !seen.checks.empty()
                                                : seen.checks.contains(std::string(info.sentence));
      if (differs) seen.checks.insert("output");
      row.by = join(seen.checks);
      continue;
    }
    ++row.seeds;
    row.caught += differs || !seen.checks.empty();
    row.caught_by_output += differs;
    if (differs) seen.checks.insert("output");
    for (const std::string& check : seen.checks) ++row.by_seed[check];
  }
  return row;
}

}  // namespace

bool meets(const FaultRow& row) {
  const FaultInfo& info = kFaults[int(row.fault)];
  if (info.card_only) return true;
  if (info.kind == FaultKind::generation) return row.caught > 0 || row.deterministic || row.seeds < 50;
  return row.deterministic && (row.seeds == 0 || row.caught > 0);
}

std::vector<FaultRow> measure(std::span<const Fault> faults, int seeds, int threads) {
  std::vector<FaultRow> rows(faults.size());
  spread(std::int64_t(faults.size()), threads, [&](std::int64_t i, const auto& machine) {
    rows[std::size_t(i)] = measure_one(kFaults[int(faults[std::size_t(i)])], seeds, machine);
  });
  return rows;
}

CleanRuns run_clean(std::int64_t schedules, int threads) {
  std::vector<const FaultInfo*> triggers;  // each once, without the two that are too large
  std::set<std::string> known;
  for (const FaultInfo& info : kFaults) {
    const std::string key = std::string(info.trigger) + char(info.edit);
    if (!info.card_only && !info.heavy && known.insert(key).second) triggers.push_back(&info);
  }
  CleanRuns all;
  std::mutex lock;
  const auto count = std::int64_t(triggers.size());
  spread(count, threads, [&](std::int64_t t, const auto& machine) {
    const Scenario scenario(*triggers[std::size_t(t)]);
    set_order(*machine, 0);
    const Seen right = scenario.run(machine, Fault::none);
    CleanRuns mine{0, std::int64_t(!right.sentences.empty()), right.sentences};
    for (std::int64_t order = t; order < schedules; order += count) {
      set_order(*machine, std::uint64_t(order + 1));
      Seen seen = scenario.run(machine, Fault::none);
      ++mine.schedules;
      if (seen.differs(right)) seen.sentences.push_back("outputs differ");
      if (seen.sentences.empty()) continue;
      ++mine.alarms;
      mine.first.push_back(std::string(triggers[std::size_t(t)]->trigger) + ", seed " +
                           std::to_string(order + 1) + ": " + seen.sentences.front());
    }
    const std::lock_guard guard(lock);
    all.schedules += mine.schedules;
    all.alarms += mine.alarms;
    all.first.insert(all.first.end(), mine.first.begin(), mine.first.end());
  });
  return all;
}

}  // namespace moe::device
