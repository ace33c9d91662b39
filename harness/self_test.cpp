#include "harness/self_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "harness/infer/finder.hpp"
#include "harness/properties/property.hpp"
#include "harness/propose.hpp"
#include "harness/run_problem.hpp"
#include "harness/shrink.hpp"

namespace moe::harness {
namespace {

/// Tried on every case of an outsider's kernel: what tells most for the fewest runs.
constexpr const char* kCore = "P1,P8,P32,P33";

bool is_bad(const CaseRecord& r) {
  const Correctness c = r.verdict->correctness;
  return c == Correctness::failed || c == Correctness::crashed || c == Correctness::timed_out;
}

/// One kernel, one seed.
class Attempt {
 public:
  Attempt(const FaultSource& source, const PlantedFault& fault, bool declared, std::uint64_t seed,
          const SelfTestPlan& plan)
      : self_test_(plan),
        seed_(seed),
        executor_(source.plant(fault, declared, seed)),
        finder_(*executor_, plan.threads) {
    plan_.executor = executor_.get();
    plan_.hardware = plan.hardware;
    plan_.threads = plan.threads;
    plan_.finder = &finder_;
    plan_.repeats = 2;
    if (!declared) core_ = find_properties(kCore);
  }

  /// The first case that fails, within the budget.
  std::optional<CaseRecord> find() {
    plan_.properties = core_;
    for (int trial = 0; trial < self_test_.trials; ++trial) {
      if (self_test_.out_of_time()) return std::nullopt;
      CaseRecord r = run(propose_case({}, seed_, trial));
      if (is_bad(r)) return r;
    }
    return std::nullopt;
  }
  /// "truth" and the properties that find it on this case.
  std::vector<std::string> finders(const CaseRecord& found) {
    std::vector<std::string> names;
    if (!found.verdict->reason.starts_with("P")) names.push_back("truth");
    plan_.properties = find_properties("all");
    for (const PropertyOutcome& o : run(found.trial).properties)
      if (o.state == PropertyState::failed) names.push_back(o.id);
    return names;
  }
  Shrunk shrink(const CaseRecord& found) {
    plan_.properties = core_;
    const std::string kind = failure_kind(*found.verdict);
    const auto fails = [&](const Case& c) {
      const CaseRecord r = run(c);
      return is_bad(r) && failure_kind(*r.verdict) == kind;
    };
    ShrinkBudget budget;
    budget.out_of_time = self_test_.out_of_time;
    return shrink_case(found.trial, fails, budget);
  }

 private:
  CaseRecord run(const Case& c) { return run_problem(c.problem, {c.choice}, plan_).front(); }

  const SelfTestPlan& self_test_;
  std::uint64_t seed_;
  std::unique_ptr<device::Executor> executor_;
  SemanticsFinder finder_;
  RunPlan plan_;
  std::vector<const Property*> core_;
};

std::vector<std::string> most_frequent(const std::map<std::string, int>& counts) {
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, count] : counts) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const auto& [count, name] : order) names.push_back(name);
  return names;
}

KillRow row_of(const FaultSource& source, const PlantedFault& fault, bool declared,
               const SelfTestPlan& plan) {
  KillRow row;
  row.fault = fault.id, row.text = fault.what, row.trigger = fault.trigger, row.declared = declared;
  row.why_not = fault.why_not;
  if (!row.why_not.empty()) return row;
  std::map<std::string, int> finders;
  std::vector<int> runs;
  std::optional<Case> smallest;
  for (int i = 0; i < plan.seeds && !plan.out_of_time(); ++i) {
    Attempt attempt(source, fault, declared, plan.first_seed + std::uint64_t(i), plan);
    const std::optional<CaseRecord> found = attempt.find();
    if (!found && plan.out_of_time()) break;
    ++row.seeds;
    if (!found) continue;
    ++row.killed;
    if (row.killed > plan.shrunk_seeds) continue;
    for (const std::string& name : attempt.finders(*found)) ++finders[name];
    const Shrunk shrunk = attempt.shrink(*found);
    runs.push_back(shrunk.runs);
    if (!smallest || case_size(shrunk.smallest) < case_size(*smallest)) smallest = shrunk.smallest;
  }
  row.killed_by = most_frequent(finders);
  if (!smallest) return row;
  std::sort(runs.begin(), runs.end());
  row.runs = runs[runs.size() / 2];
  row.shrunk = to_line(*smallest);
  if (!fault.trigger.empty()) row.distance = case_size(*smallest) / case_size(parse_case(fault.trigger));
  return row;
}

}  // namespace

std::vector<KillRow> run_self_test(const FaultSource& source, const SelfTestPlan& plan) {
  std::vector<KillRow> rows;
  for (std::size_t i = 0; i < source.faults.size(); ++i) {
    if (!plan.shard.owns(i)) continue;
    for (const bool declared : {true, false}) {
      if (plan.out_of_time()) return rows;
      rows.push_back(row_of(source, source.faults[i], declared, plan));
      plan.tell(rows.back());
    }
  }
  return rows;
}

bool keeps_promise(const KillRow& row, const PlantedFault& fault) {
  if (!row.why_not.empty() || row.seeds == 0) return true;
  if (!row.declared && !fault.value_fault) return true;
  return row.killed >= (row.declared ? kDeclaredRate : kUndeclaredRate) * row.seeds;
}

}  // namespace moe::harness
