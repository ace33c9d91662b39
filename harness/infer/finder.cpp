#include "harness/infer/finder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

/// Candidates of a stage that the probes left and that are tried; more would mean that next to nothing was
/// seen.
constexpr std::size_t kMostTried = 48;

bool good(const Verdict& v) {
  return v.correctness == Correctness::passed || v.correctness == Correctness::mistrusted;
}

Verdict with_note(Verdict v, const std::string& note) {
  if (!note.empty()) v.reason = v.reason.empty() ? note : fmt::format("{} ({})", v.reason, note);
  return v;
}

Inference asked(device::Executor& executor, const Case& c, int threads, ProbeSize size) {
  try {
    return infer_semantics(executor, c, threads, size);
  } catch (const BadInput& e) {
    Inference none;
    none.trial = c;
    none.refusal = e.what();
    return none;
  } catch (const MachineFailure& e) {
    Inference none;
    none.trial = c;
    none.refusal = e.what();
    return none;
  }
}

void append(std::vector<Semantics>& all, LayerStage stage, const std::vector<Semantics>& more) {
  all.insert(all.end(), more.begin(), more.end());
  all = distinct_at(stage, all);
}

/// Fields of a stage in which two differ, as words.
std::vector<std::string> changes(LayerStage stage, const Semantics& here, const Semantics& there) {
  std::vector<std::string> words;
  const std::vector<SemanticsField> now = fields_of(here), then = fields_of(there);
  const auto at = fields_at(stage);
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] != then[i] && std::find(at.begin(), at.end(), now[i].name) != at.end())
      words.push_back(fmt::format("{} {} where probes gave {}", now[i].name, now[i].value, then[i].value));
  return words;
}

/// Where one scale follows from all rows, each candidate costs all of them: elements times candidates.
constexpr double kMostElements = 3e8;

StageCandidates candidates_of(const Problem& p, LayerStage stage, const Inference& found,
                              const Inference* full, const std::vector<Semantics>& space) {
  StageCandidates c;
  if (!found.knows(stage)) return c;
  c.likely = distinct_at(stage, found.left);
  if (full != nullptr && full->knows(stage)) append(c.likely, stage, full->left);
  if (c.likely.size() > kMostTried) return {};
  std::vector<Semantics> all = c.likely;
  append(all, stage, space);
  const double elements =
      double(p.shape.pairs()) * double(std::max(p.shape.hidden, p.shape.local_intermediate()));
  if (p.quant.kind != QuantKind::tensor_dynamic || elements * double(all.size()) < kMostElements)
    c.others.assign(all.begin() + std::ptrdiff_t(c.likely.size()), all.end());
  // the one that differs least comes first: it is what the verdict names
  std::stable_sort(c.others.begin(), c.others.end(), [&](const Semantics& a, const Semantics& b) {
    return changes(stage, a, c.likely.front()).size() < changes(stage, b, c.likely.front()).size();
  });
  c.must_fit = full != nullptr && full->knows(stage);
  return c;
}

StageCandidates candidates_of_layer(const Inference& found, const Inference* full) {
  StageCandidates c;
  if (!found.known() || found.left.size() > kMostTried) return c;
  c.likely = found.left;
  c.must_fit = full != nullptr && full->known();
  if (c.must_fit) c.likely.insert(c.likely.end(), full->left.begin(), full->left.end());
  return c;
}

std::string_view stage_name(JudgedStage stage, Op op) {
  return op == Op::grouped_gemm ? name(LayerStage::grouped_gemm) : name(LayerStage(int(stage)));
}

/// What the notes of a verdict say of each stage.
struct StageNotes {
  std::vector<std::string> to_the_bit, by_bounds, near, otherwise;
  std::string exp;  // another form than the summary's, which speaks of the tightest
  bool unexplained = false;
};

StageNotes notes_of(const Case& c, const Judgement& j, const Inference& found) {
  StageNotes notes;
  for (const StageJudgement& s : j.stages) {
    const std::string stage(stage_name(s.stage, c.problem.op));
    if (s.missed > 0) {
      notes.near.push_back(
          fmt::format("what probes of this size gave did not hold in {} here ({} of {} elements "
                      "one step off), so bounds judge it",
                      stage, s.missed, s.elements));
      continue;
    }
    (s.fits ? notes.to_the_bit : notes.by_bounds).push_back(stage);
    notes.unexplained = notes.unexplained || !s.fits;
    if (!s.fits) continue;
    const bool layer = c.problem.op == Op::grouped_gemm;
    const LayerStage at = layer ? LayerStage::grouped_gemm : LayerStage(int(s.stage));
    if (s.stage == JudgedStage::act_quant && s.fits->exp_form != found.left.front().exp_form)
      notes.exp = s.fits->exp_form == ExpForm::fast ? "; here exp fast" : "; here exp within_2_ulp";
    if (s.likely) continue;
    Semantics same_exp = *s.fits;
    if (s.stage == JudgedStage::act_quant) same_exp.exp_form = found.left.front().exp_form;
    const auto what = changes(at, same_exp, distinct_at(at, found.left).front());
    if (!what.empty()) notes.otherwise.push_back(fmt::format("{} here by {}", stage, fmt::join(what, ", ")));
  }
  return notes;
}

/// Why some of what was shown has no candidates; empty where all of it has.
std::string unknown_text(const Inference& found, const JudgePlan& plan, bool whole) {
  std::vector<std::string> stages;
  for (const LayerStage s : stages_of(found.layer.op)) {
    const bool shown = std::find(found.stages.begin(), found.stages.end(), name(s)) != found.stages.end();
    const bool open = whole ? plan.layer.likely.empty() : plan.stages.at(judged_stage(s)).likely.empty();
    if (shown && open) stages.emplace_back(name(s));
  }
  if (stages.empty()) return "";
  const std::string where = fmt::format("{}", fmt::join(stages, " and "));
  if (found.contradictions.empty())
    return fmt::format("probes left too many roundings possible in {}, so bounds judge it", where);
  const Contradiction& first = found.contradictions.front();
  return fmt::format("its rounding {} {} is none of the known ones (probe {}), so bounds judge it",
                     whole ? "in the stages up to" : "in", where, first.probe);
}

std::string note_of(const StageNotes& notes, const Inference& found, const Inference* full,
                    const std::string& unknown, bool passes) {
  std::string note = unknown;
  if (unknown.empty())
    note = "semantics inferred: " + found.summary() + notes.exp;
  else if (!notes.to_the_bit.empty())
    note += fmt::format("; to the bit: {}{}", fmt::join(notes.to_the_bit, ", "), notes.exp);
  for (const auto* more : {&notes.otherwise, &notes.near})
    for (const std::string& other : *more) note += "; " + other;
  if (!notes.unexplained || !passes) return note;
  note += fmt::format("; {} here inside the bounds, but by no known rounding",
                      fmt::join(notes.by_bounds, " and "));
  if (full == nullptr) return note;
  return note + (full->asked() ? ", nor are probes of this size" : fmt::format(" ({})", full->refusal));
}

}  // namespace

const Inference* SemanticsFinder::known(const Case& c) const {
  const auto found = found_.find(to_line(small_case(c)));
  return found != found_.end() ? &found->second : nullptr;
}

const Inference& SemanticsFinder::of(const Case& c) {
  if (const Inference* found = known(c)) return *found;
  return found_.emplace(to_line(small_case(c)), asked(executor_, c, threads_, ProbeSize::small))
      .first->second;
}

const Inference& SemanticsFinder::of_full_size(const Case& c) {
  const std::string line = "full " + to_line(full_case(c));
  const auto found = found_.find(line);
  if (found != found_.end()) return found->second;
  return found_.emplace(line, asked(executor_, c, threads_, ProbeSize::full)).first->second;
}

InferredVerdict judge_inferred(const Case& c, const TensorSet& inputs, const TensorSet& outputs,
                               JudgePlan plan, const Inference& found, const Inference* full) {
  plan.semantics.reset();
  if (!found.asked()) return {judge(c, inputs, outputs, plan)};  // as if not asked
  if (full != nullptr && full->failure) full = nullptr;          // that is a verdict of its own
  const std::vector<Semantics> space = candidate_semantics(c.problem);
  for (const LayerStage stage : stages_of(c.problem.op))
    plan.stages[judged_stage(stage)] = candidates_of(c.problem, stage, found, full, space);
  plan.layer = candidates_of_layer(found, full);
  const auto in_gemm2 = [](const Semantics& s) { return s.weight_place == WeightPlace::gemm2; };
  plan.weight_in_gemm2 =
      found.knows(LayerStage::combine) && std::all_of(found.left.begin(), found.left.end(), in_gemm2);
  // Scores of its own router may be others in the last bit, and nothing shows them: bits cannot fail it.
  const bool router_hidden =
      c.problem.op == Op::moe_layer && !inputs.has("topk_ids") && !outputs.has("topk_ids");
  if (router_hidden) plan.layer.must_fit = false;
  Judgement j = judge_stages_of(c, inputs, outputs, plan);
  const StageNotes notes = notes_of(c, j, found);
  const bool whole = c.problem.op == Op::moe_layer && outputs.all().size() == 1 && outputs.has("out");
  const std::string note = note_of(notes, found, full, unknown_text(found, plan, whole), good(j.verdict));
  InferredVerdict out{with_note(std::move(j.verdict), note), false};
  if (!notes.unexplained || !good(out.verdict)) return out;
  if (router_hidden) out.verdict.correctness = Correctness::mistrusted;
  out.ask_full_size = !router_hidden && full == nullptr;
  return out;
}

Verdict probe_verdict(const Inference& found) {
  const Problem& p = found.layer;
  const MoeShape& s = p.shape;
  Verdict v = found.failure->verdict;
  v.reason = fmt::format(
      "this case passes, another of the same op does not (probe {}: tokens {}, hidden {}, intermediate {}, "
      "experts {}, top_k {}; a shape that a kernel does not take it refuses): {}",
      found.failure->probe, s.tokens, s.hidden, s.intermediate, s.experts, s.top_k, v.reason);
  return v;
}

}  // namespace moe::harness
