#include "harness/properties/try_properties.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/child_process.hpp"
#include "harness/infer/infer.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/subject.hpp"
#include "harness/worker_protocol.hpp"

namespace moe::harness {
namespace {

/// Inputs are held several times over; properties are for cases that a kernel runs many times.
constexpr double kMostBytes = 512e6;

double bytes_of(const TensorSet& set) {
  double sum = 0;
  for (const Tensor& t : set.all()) {
    double filled = 1;
    if (!t.filled_groups.empty())
      filled = double(std::count(t.filled_groups.begin(), t.filled_groups.end(), 1)) /
               double(t.filled_groups.size());
    sum += filled * double(t.bytes());
  }
  return sum;
}

/// Why none is tried on the case; empty = they are.
std::string not_tried(const OpenTrial& trial, const TensorSet& inputs) {
  const Correctness word = trial.record.verdict->correctness;
  if (word != Correctness::passed && word != Correctness::failed && word != Correctness::mistrusted)
    return fmt::format("the case was {}", name(word));
  const Problem& p = trial.record.trial.problem;
  if (p.op == Op::moe_layer && p.shape.tokens > 0 && !trial.outputs.has("out"))
    return "the kernel gave no out";
  if (const double bytes = bytes_of(inputs); bytes > kMostBytes)
    return fmt::format("its inputs have {:.1f} GB; properties are for cases below {:.1f} GB", bytes / 1e9,
                       kMostBytes / 1e9);
  return {};
}

SubjectPlan plan_of(const OpenTrial& trial, const RunPlan& plan) {
  SubjectPlan subject;
  subject.executor = plan.executor;
  subject.foreign = plan.executor->name().starts_with(kProcessPrefix);
  subject.graph = plan.graph;
  subject.crowded = plan.crowded;
  const Ground& ground = trial.ground;
  subject.known_arithmetic =
      ground.declared.has_value() || (ground.inferred != nullptr && ground.inferred->known());
  subject.deterministic = is_deterministic(*plan.executor, trial.record.trial);
  subject.threads = plan.threads;
  subject.counts = trial.record.counts;
  return subject;
}

PropertyOutcome skipped(const Property& p, std::string reason) {
  return {std::string(p.id), PropertyState::skipped, std::move(reason)};
}

PropertyOutcome try_one(const Property& p, Subject& s) {
  if (!s.plan().deterministic && p.kind == PropertyClass::exact)
    return skipped(p, "the kernel says that two right runs may differ");
  if (std::string why = p.not_met(s); !why.empty()) return skipped(p, std::move(why));
  PropertyOutcome outcome{std::string(p.id), PropertyState::held, {}};
  s.start();
  try {
    outcome.reason = p.broken(s);
  } catch (const NotApplicable& e) {
    return skipped(p, e.what());
  } catch (const WorkerRefused& e) {
    return skipped(p, fmt::format("refused: {}", e.what()));
  } catch (const BadInput& e) {
    return skipped(p, fmt::format("refused: {}", e.what()));
  } catch (const RunFinding& e) {
    outcome.reason = e.what();
  } catch (const std::out_of_range& e) {
    outcome.reason = fmt::format("the kernel gave no {}", e.what());
  }
  if (!outcome.reason.empty()) {
    outcome.state = PropertyState::failed;
    outcome.reason = one_line(outcome.reason.substr(0, 500));
  } else if (s.seen() == 0 || s.nonzero() == 0) {
    return skipped(p, s.seen() == 0 ? "nothing was left to compare" : "all that was compared is zero");
  }
  return outcome;
}

/// The verdict of a case whose property failed; a verdict that is bad already keeps its word.
void note_failure(const Property& p, const PropertyOutcome& outcome, Verdict& v) {
  const std::string text = fmt::format("{} fails ({}): {}", p.id, p.statement, outcome.reason);
  const bool good = v.correctness == Correctness::passed || v.correctness == Correctness::mistrusted;
  v.reason = good ? text : v.reason + "; " + text;
  if (good) v.correctness = Correctness::failed;
  if (v.fault_class.empty()) v.fault_class = p.catches;
}

/// Tries all until the kernel is lost; the property in which that happened, or null.
const Property* try_each(Subject& s, CaseRecord& record, const RunPlan& plan, const Property*& current) {
  const Property* first = nullptr;
  for (const Property* p : plan.properties) {
    current = p;
    PropertyOutcome outcome = try_one(*p, s);
    if (outcome.state == PropertyState::failed && first == nullptr) {
      first = p;
      note_failure(*p, outcome, *record.verdict);
    }
    record.properties.push_back(std::move(outcome));
  }
  return first;
}

std::string replay_with(const Property& p, const CaseRecord& record, const RunPlan& plan) {
  RunPlan named = plan;
  named.options += fmt::format("--properties {} ", p.id);
  return replay_line(record.trial, named);
}

}  // namespace

void try_properties(OpenTrial& trial, const Routing& routing, const TensorSet& inputs, const RunPlan& plan) {
  CaseRecord& record = trial.record;
  if (const std::string why = not_tried(trial, inputs); !why.empty()) {
    for (const Property* p : plan.properties) record.properties.push_back(skipped(*p, why));
    return;
  }
  trial.session.reset();  // a worker has one session
  const bool bad = record.verdict->correctness == Correctness::failed;
  const Property *current = nullptr, *failed = nullptr;
  in_trial(trial, plan, [&] {
    Subject subject(record.trial, routing, inputs, plan_of(trial, plan));
    failed = try_each(subject, record, plan, current);
  });
  if (record.properties.size() < plan.properties.size()) {  // the kernel was lost over `current`
    failed = current;
    record.verdict->reason = fmt::format("in {}: {}", current->id, record.verdict->reason);
    record.properties.push_back({std::string(current->id), PropertyState::failed, record.verdict->reason});
    for (std::size_t i = record.properties.size(); i < plan.properties.size(); ++i)
      record.properties.push_back(
          skipped(*plan.properties[i], fmt::format("the kernel was lost in {}", current->id)));
  }
  if (failed != nullptr && !bad) record.verdict->replay = replay_with(*failed, record, plan);
}

std::vector<PropertyCount> no_counts(const std::vector<const Property*>& asked) {
  std::vector<PropertyCount> counts;
  for (const Property* p : asked) {
    counts.emplace_back();
    counts.back().id = p->id, counts.back().statement = p->statement;
  }
  return counts;
}

}  // namespace moe::harness
