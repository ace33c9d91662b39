#include "harness/self_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "harness/infer/finder.hpp"
#include "harness/properties/property.hpp"
#include "harness/propose.hpp"
#include "harness/run_problem.hpp"
#include "harness/shrink.hpp"

namespace moe::harness {
namespace {

/// Tried on every case: what tells most for the fewest runs. Of a kernel that is judged to the bit only the
/// work is left to ask for, which takes no run at all.
constexpr const char *kCore = "P1,P8,P32,P33", *kDeclaredCore = "P54";

bool is_bad(const CaseRecord& r) {
  const Correctness c = r.verdict->correctness;
  return c == Correctness::failed || c == Correctness::crashed || c == Correctness::timed_out;
}

bool has_failed(const CaseRecord& r, std::string_view property) {
  return std::any_of(r.properties.begin(), r.properties.end(), [&](const PropertyOutcome& o) {
    return o.id == property && o.state == PropertyState::failed;
  });
}

/// It fails whatever its properties do.
bool by_truth(const CaseRecord& r) {
  return is_bad(r) && std::none_of(r.properties.begin(), r.properties.end(), [&](const PropertyOutcome& o) {
           const std::string& why = r.verdict->reason;
           return why.starts_with(fmt::format("{} fails (", o.id)) ||
                  why.starts_with(fmt::format("in {}: ", o.id));
         });
}

/// A case that failed, and how many the kernel took until then.
struct Found {
  CaseRecord record;
  int cases = 0;
};

/// One faulty kernel, asked with the cases of one seed after the other.
class Bench {
 public:
  Bench(const FaultSource& source, const PlantedFault& fault, bool declared, const SelfTestPlan& plan)
      : self_test_(plan),
        declared_(declared),
        executor_(source.plant(fault, declared)),
        finder_(*executor_, plan.threads) {
    plan_.executor = executor_.get();
    plan_.hardware = plan.hardware;
    plan_.threads = plan.threads;
    plan_.finder = &finder_;
    plan_.repeats = kRuns;
    core_ = find_properties(declared ? kDeclaredCore : kCore);
  }

  /// The first case that fails, within the budget: of the cheap looks first, of the whole ones where those
  /// see nothing. Cases that the kernel refuses cost none of it.
  std::optional<Found> find(std::uint64_t seed) {
    std::optional<Found> found = look(seed, Look::once);
    if (!found && !self_test_.out_of_time()) found = look(seed, Look::whole);
    plan_.repeats = kRuns;
    return found;
  }
  /// By what found it, and no more.
  Shrunk shrink(const CaseRecord& found) {
    plan_.properties.clear();
    if (!by_truth(found))
      for (const Property* p : core_)
        if (has_failed(found, p->id)) plan_.properties.push_back(p);
    const std::string kind = failure_kind(*found.verdict);
    const auto fails = [&](const Case& c) {
      const CaseRecord r = run(c);
      return is_bad(r) && failure_kind(*r.verdict) == kind;
    };
    ShrinkBudget budget;
    budget.out_of_time = self_test_.out_of_time;
    plan_.repeats = 1;  // half the runs; a failure that one run does not repeat is asked for twice
    Shrunk shrunk = shrink_case(found.trial, fails, budget);
    plan_.repeats = kRuns;
    return shrunk.flaky ? shrink_case(found.trial, fails, budget) : shrunk;
  }
  /// "truth" and the properties that find it on this case; of a declared kernel only those that were asked.
  std::vector<std::string> finders(const Case& c) {
    plan_.properties = declared_ ? core_ : find_properties("all");
    const CaseRecord r = run(c);
    std::vector<std::string> names;
    if (by_truth(r)) names.push_back("truth");
    for (const PropertyOutcome& o : r.properties)
      if (o.state == PropertyState::failed) names.push_back(o.id);
    return names;
  }

 private:
  enum class Look {
    once,   // one run of each case, judged: what nearly every fault needs
    whole,  // another order of events too, and properties
  };
  std::optional<Found> look(std::uint64_t seed, Look how) {
    const bool once = how == Look::once;
    plan_.properties = once && !declared_ ? std::vector<const Property*>{} : core_;
    plan_.repeats = once ? 1 : kRuns;
    ProposalFrame frame;
    frame.largest = self_test_.trial_size;
    int cases = 0;
    for (int trial = 0; cases < self_test_.trials && trial < kDrawn * self_test_.trials; ++trial) {
      if (self_test_.out_of_time()) return std::nullopt;
      CaseRecord r = run(with_its_tile(propose_case(frame, seed, trial)));
      cases += r.verdict->correctness != Correctness::refused;
      if (is_bad(r)) return Found{std::move(r), cases};
    }
    return std::nullopt;
  }
  /// The case with the first choice that the kernel has: one with few tiles is asked as many problems of each
  /// kind as one with all.
  Case with_its_tile(Case c) {
    if (takes(c)) return c;
    for (Choice& choice : other_choices(c))
      if (Case other{c.problem, std::move(choice)}; takes(other)) return other;
    return c;
  }
  /// What happens beside a refusal is for the run to say.
  bool takes(const Case& c) {
    try {
      return executor_->open(c).session != nullptr;
    } catch (const std::runtime_error&) {
      return true;
    }
  }

  /// So many draws for each case that is to be taken.
  static constexpr int kDrawn = 4;
  /// Of each case: an order of events may show what the plain one hides.
  static constexpr int kRuns = 2;
  /// A planted fault whose launch the machine refuses (a tensor map of no rows, say) was seen, as surely as
  /// wrong bytes; the right kernels launch the same cases.
  CaseRecord run(const Case& c) {
    try {
      return run_problem(c.problem, {c.choice}, plan_).front();
    } catch (const BadInput& refusal) {
      CaseRecord r;
      r.trial = c;
      r.verdict = Verdict{};
      r.verdict->correctness = Correctness::failed;
      r.verdict->reason = refusal.what();
      return r;
    }
  }

  const SelfTestPlan& self_test_;
  bool declared_;
  std::unique_ptr<device::Executor> executor_;
  SemanticsFinder finder_;
  RunPlan plan_;
  std::vector<const Property*> core_;
};

int median(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

KillRow empty_row(const PlantedFault& fault, bool declared) {
  KillRow row;
  row.fault = fault.id, row.kind = fault.kind, row.text = fault.what, row.trigger = fault.trigger;
  row.declared = declared, row.why_not = fault.why_not;
  return row;
}

/// Nothing where time ended before the last seed.
std::optional<KillRow> row_of(const FaultSource& source, const PlantedFault& fault, bool declared,
                              const SelfTestPlan& plan) {
  KillRow row = empty_row(fault, declared);
  if (!row.why_not.empty()) return row;
  Bench bench(source, fault, declared, plan);
  std::vector<int> cases;
  for (; row.seeds < plan.seeds; ++row.seeds) {
    const std::optional<Found> found = bench.find(plan.first_seed + std::uint64_t(row.seeds));
    if (plan.out_of_time()) return std::nullopt;
    plan.tried(found.has_value());
    if (!found) continue;
    cases.push_back(found->cases);
    if (row.killed++ > 0) continue;
    const Shrunk shrunk = bench.shrink(found->record);
    row.runs = shrunk.runs, row.shrunk = to_line(shrunk.smallest);
    row.killed_by = bench.finders(shrunk.smallest);
    if (!fault.trigger.empty())
      row.distance = case_size(shrunk.smallest) / case_size(parse_case(fault.trigger));
  }
  row.cases = median(std::move(cases));
  if (plan.out_of_time()) return std::nullopt;
  return row;
}

}  // namespace

std::vector<KillRow> run_self_test(const FaultSource& source, const SelfTestPlan& plan) {
  std::vector<KillRow> rows;
  for (const PlantedFault& fault : source.faults) {
    for (const bool declared : {true, false}) {
      const auto known = std::find_if(plan.done.begin(), plan.done.end(), [&](const KillRow& row) {
        return row.fault == fault.id && row.declared == declared;
      });
      if (known != plan.done.end()) {
        rows.push_back(*known);
        continue;
      }
      if (plan.out_of_time()) continue;  // rows behind it may be known
      std::optional<KillRow> row = row_of(source, fault, declared, plan);
      if (!row) continue;
      plan.tell(*row);
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

void choose_faults(FaultSource& source, const std::string& list, const Shard& shard) {
  std::vector<PlantedFault> chosen;
  if (list.empty()) chosen = source.faults;
  for (const std::string& id : list.empty() ? std::vector<std::string>{} : split(list, ',')) {
    const auto found = std::find_if(source.faults.begin(), source.faults.end(),
                                    [&](const PlantedFault& f) { return f.id == id; });
    if (found == source.faults.end())
      throw BadInput(fmt::format("no fault '{}' is planted; {} and {} others are", id,
                                 source.faults.front().id, source.faults.size() - 1));
    chosen.push_back(*found);
  }
  source.faults.clear();
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (shard.owns(i)) source.faults.push_back(chosen[i]);
}

bool keeps_promise(const KillRow& row, const PlantedFault& fault) {
  if (!row.why_not.empty() || row.seeds == 0) return true;
  if (!row.declared && !fault.value_fault) return true;
  return row.killed >= (row.declared ? kDeclaredRate : kUndeclaredRate) * row.seeds;
}

}  // namespace moe::harness
