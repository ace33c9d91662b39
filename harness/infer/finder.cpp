#include "harness/infer/finder.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "harness/child_process.hpp"
#include "harness/worker_protocol.hpp"

namespace moe::harness {
namespace {

/// Candidates that the probes left and that are tried; more would mean that next to nothing was seen.
constexpr std::size_t kMostTried = 48;

bool good(const Verdict& v) {
  return v.correctness == Correctness::passed || v.correctness == Correctness::mistrusted;
}

Verdict with_note(Verdict v, const std::string& note) {
  v.reason = v.reason.empty() ? note : fmt::format("{} ({})", v.reason, note);
  return v;
}

/// What the summary, which speaks of the tightest exp, does not say of the one that fits this case.
std::string other_exp(const Semantics& fits, const Semantics& tightest) {
  if (fits.exp_form == tightest.exp_form) return "";
  return fits.exp_form == ExpForm::fast ? "; here exp fast" : "; here exp within_2_ulp";
}

Inference refused(const Case& c, const std::string& why, bool ended = false) {
  Inference none;
  none.trial = c;
  none.refusal = why;
  none.ended = ended;
  return none;
}

}  // namespace

const Inference* SemanticsFinder::known(const Case& c) const {
  const auto found = found_.find(to_line(small_case(c)));
  return found != found_.end() ? &found->second : nullptr;
}

const Inference& SemanticsFinder::of(const Case& c) {
  if (const Inference* found = known(c)) return *found;
  Inference found;
  try {
    found = infer_semantics(executor_, c, threads_);
  } catch (const WorkerLost& e) {  // in a probe: the case has done nothing yet
    found = refused(c, e.what(), true);
  } catch (const WorkerRefused& e) {
    found = refused(c, e.what(), true);
  } catch (const BadInput& e) {
    found = refused(c, e.what());
  } catch (const MachineFailure& e) {
    found = refused(c, e.what());
  }
  return found_.emplace(to_line(small_case(c)), std::move(found)).first->second;
}

Verdict judge_inferred(const Case& c, const TensorSet& inputs, const TensorSet& outputs, JudgePlan plan,
                       const Inference& found) {
  plan.semantics.reset();
  if (!found.refusal.empty()) {  // it takes no probe: as if not asked; but one that ended in a probe is named
    Verdict v = judge(c, inputs, outputs, plan);
    return found.ended ? with_note(std::move(v), "asked with small cases, it ended: " + found.refusal) : v;
  }
  if (!found.known() || found.left.size() > kMostTried)
    return with_note(judge(c, inputs, outputs, plan), "no semantics inferred: " + found.brief());
  plan.own_router = true;
  const std::string note = "semantics inferred: " + found.summary();
  Verdict first;
  for (const Semantics& s : found.left) {
    plan.semantics = s;
    Verdict v = judge(c, inputs, outputs, plan);
    if (good(v)) return with_note(std::move(v), note + other_exp(s, found.left.front()));
    if (&s == &found.left.front()) first = std::move(v);
  }
  const bool router_hidden =
      c.problem.op == Op::moe_layer && !inputs.has("topk_ids") && !outputs.has("topk_ids");
  if (!router_hidden) return with_note(std::move(first), note);
  // Scores of its own router may be others in the last bit, and nothing shows them: bits cannot fail it.
  plan.semantics.reset();
  Verdict v = judge(c, inputs, outputs, plan);
  if (!good(v)) return v;
  v.correctness = Correctness::mistrusted;
  return with_note(std::move(v),
                   fmt::format("{}; inside the bounds, but not to the bit: {}", note, first.reason));
}

}  // namespace moe::harness
