#include "harness/infer/infer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "fixtures/problem/errors.hpp"
#include "harness/child_process.hpp"
#include "harness/infer/eliminate.hpp"
#include "harness/worker_protocol.hpp"

namespace moe::harness {
namespace {

/// More candidates than this are first held against one token.
constexpr std::size_t kMany = 4;
/// Two blocks that cancel and one of constants, where a probe's rows are `hidden`.
constexpr std::int64_t kLeastHidden = 384;

/// Values of each field among the candidates with these numbers.
using ValueSets = std::array<std::set<std::string>, CandidateSpace::kFields>;
ValueSets values_of(const CandidateSpace& space, std::span<const int> numbers) {
  std::array<std::vector<bool>, CandidateSpace::kFields> seen;
  ValueSets sets;
  for (std::size_t f = 0; f < CandidateSpace::kFields; ++f) {
    seen[f].resize(space.values[f].size());
    for (const int n : numbers) seen[f][space.value[std::size_t(n)][f]] = true;
    for (std::size_t v = 0; v < seen[f].size(); ++v)
      if (seen[f][v]) sets[f].insert(space.values[f][v]);
  }
  return sets;
}

std::vector<std::int64_t> first_tokens(std::int64_t n) {
  std::vector<std::int64_t> tokens(std::size_t(n), 0);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// Fields that a stage depends on.
std::vector<std::string> fields_behind(LayerStage stage) {
  switch (stage) {
    case LayerStage::quantize:
      return {"amax_floor", "scale_formula", "quant_formula"};
    case LayerStage::gemm1:
    case LayerStage::grouped_gemm:
      return {"accumulator", "hmma_order", "promote_k", "scale_order"};
    case LayerStage::act_quant:
      return {"exp", "gate_rounding", "product_rounding"};
    case LayerStage::gemm2:
      return {"weight_place"};
    case LayerStage::combine:
      break;
  }
  return {"weight_place", "combine_order"};
}

class Inquiry {
 public:
  Inquiry(Inference& result, const Problem& space, int threads)
      : result_(result), space_(space), threads_(threads), left_(space_.all.size()) {
    std::iota(left_.begin(), left_.end(), 0);
    result_.candidates = left_.size();
  }

  /// Whether candidates are left that give every bit of it.
  bool hear(const Probe& probe, const TensorSet& outputs);
  void conclude();
  std::vector<Semantics> left() const;

 private:
  void learn(const Probe& probe, const StageFinding& f);
  FieldFinding finding(std::size_t field, const std::set<std::string>& values) const;

  Inference& result_;
  CandidateSpace space_;
  int threads_;
  std::vector<int> left_;
  std::map<std::pair<std::size_t, std::string>, RuledOutValue> evidence_;  // by field and value
  std::set<std::string> doubted_;  // fields of stages that no candidate explains
};

bool Inquiry::hear(const Probe& probe, const TensorSet& outputs) {
  const Evidence e{probe.trial.problem, probe.inputs, outputs, space_, probe.one_hot, threads_};
  const auto all = first_tokens(probe.trial.problem.shape.tokens);
  std::vector<StageFinding> findings;
  const bool dynamic = probe.trial.problem.quant.kind == QuantKind::tensor_dynamic;
  // a scale follows from the activations of all rows; an op by itself is cheap
  const bool whole = (dynamic && !outputs.has("gemm1")) || probe.trial.problem.op != Op::moe_layer;
  if (left_.size() > kMany && !whole) left_ = eliminate(e, left_, std::span(all).first(1), findings);
  const bool clear = std::none_of(findings.begin(), findings.end(), [](auto& f) { return f.left.empty(); });
  if (clear) left_ = eliminate(e, left_, all, findings);
  for (const StageFinding& f : findings) learn(probe, f);
  ++result_.probes;
  return !findings.empty() &&
         std::none_of(findings.begin(), findings.end(), [](auto& f) { return f.left.empty(); });
}

std::vector<Semantics> Inquiry::left() const {
  std::vector<Semantics> some;
  for (const int n : left_) some.push_back(space_.all[std::size_t(n)]);
  return some;
}

void Inquiry::learn(const Probe& probe, const StageFinding& f) {
  const std::string stage(name(f.stage));
  if (std::find(result_.stages.begin(), result_.stages.end(), stage) == result_.stages.end())
    result_.stages.push_back(stage);
  if (f.left.empty()) {
    const Distance& d = f.nearest_distance;
    result_.contradictions.push_back({probe.name, stage, f.stage_only,
                                      fmt::format("{} of {} elements differ from the nearest candidate, {}",
                                                  d.wrong, d.checked, d.place)});
    const bool alone = f.stage_only || probe.trial.problem.op != Op::moe_layer;
    for (int s = alone ? int(f.stage) : 0; s <= int(f.stage); ++s)
      for (const std::string& field : fields_behind(LayerStage(s))) doubted_.insert(field);
  }
  for (const auto& out : f.ruled_out) {
    const std::string& value = space_.values[out.field][out.value];
    evidence_.try_emplace({out.field, value},
                          RuledOutValue{value, probe.name, stage, out.distance.wrong, out.distance.checked});
  }
}

FieldFinding Inquiry::finding(std::size_t number, const std::set<std::string>& values) const {
  const std::string& field = space_.fields[number];
  FieldFinding f{field, {values.begin(), values.end()}, FieldState::undetermined, {}};
  if (space_.values[number].size() == 1)
    f.state = FieldState::irrelevant;
  else if (doubted_.contains(field))
    f.state = FieldState::unknown;
  else if (values.size() == 1)
    f.state = FieldState::determined;
  for (const std::string& value : space_.values[number])
    if (const auto why = evidence_.find({number, value}); why != evidence_.end() && !values.contains(value))
      f.ruled_out.push_back(why->second);
  return f;
}

void Inquiry::conclude() {
  // the forms of exp are sets that hold one another: more than one explains a kernel, the tightest says most
  std::stable_sort(left_.begin(), left_.end(), [&](int a, int b) {
    return space_.all[std::size_t(a)].exp_form < space_.all[std::size_t(b)].exp_form;
  });
  const auto form_of = [&](int n) { return space_.all[std::size_t(n)].exp_form; };
  std::vector<int> tightest = left_;
  std::erase_if(tightest, [&](int n) { return form_of(n) != form_of(left_.front()); });
  ValueSets values = values_of(space_, tightest);
  const ValueSets all_values = values_of(space_, left_);
  for (std::size_t f = 0; f < CandidateSpace::kFields; ++f)
    if (space_.fields[f] == "exp") values[f] = all_values[f];
  for (std::size_t f = 0; f < CandidateSpace::kFields; ++f) result_.fields.push_back(finding(f, values[f]));
  std::set<std::string> presets;
  for (const int n : left_) {
    Semantics s = space_.all[std::size_t(n)];
    const auto names = presets_like(space_.problem, s);
    if (form_of(n) == form_of(left_.front())) presets.insert(names.begin(), names.end());
    s.preset = names.empty() ? "inferred" : names.front();
    result_.left.push_back(std::move(s));
  }
  const auto rank = [](const Semantics& s) { return std::pair(s.exp_form, s.preset == "inferred"); };
  std::stable_sort(result_.left.begin(), result_.left.end(),
                   [&](const Semantics& a, const Semantics& b) { return rank(a) < rank(b); });
  if (!result_.contradictions.empty()) return;  // a preset would have explained them
  for (const std::string_view preset : semantics_presets())
    if (presets.contains(std::string(preset))) result_.presets.emplace_back(preset);
}

/// What probes of a case's own sizes may cost: multiply-adds, bytes of weights, and elements times candidates
/// that a stage without sums is held against.
constexpr double kMostWork = 3e10, kMostWeights = 1e9, kMostElements = 3e8;

/// A bound from above: every accumulator is tried on the first rows, a handful on the others.
bool too_large(const Problem& p) {
  const MoeShape& s = p.shape;
  const double inner = double(s.local_intermediate()), hidden = double(s.hidden), rows = double(s.pairs());
  const double first = hidden * double(s.up_rows()), second = hidden * inner;
  const double experts = double(s.local_experts());
  if (p.op == Op::moe_layer)
    return (first + second) * experts > kMostWeights ||
           (first + second) * (45.0 * s.top_k + 4 * rows) * 8 > kMostWork;
  if (p.op == Op::grouped_gemm) {
    const double matrix = p.gemm == 1 ? first : second;
    return matrix * experts > kMostWeights || matrix * rows * 49 * 3 > kMostWork;
  }
  // their inputs come from a layer with 256 or 640 in the other place
  const double columns = p.op == Op::act_quant ? inner : hidden, other = p.op == Op::act_quant ? 640 : 256;
  const double candidates = p.op == Op::act_quant ? 360 : p.op == Op::quantize ? 30 : 4;
  return 3 * columns * other * experts > kMostWeights || 3 * columns * other * rows > kMostWork ||
         rows * columns * candidates > kMostElements;
}

/// Hidden columns that probes of a case need where its rows have them; 0 = any.
std::int64_t least_hidden(Op op, ProbeSize size) {
  if (op == Op::grouped_gemm || op == Op::act_quant) return 0;
  return size == ProbeSize::full && op != Op::moe_layer ? 256 : kLeastHidden;
}

/// A session for the probes, small if the executor takes it, else of the case's own size.
device::Opened open_probes(device::Executor& executor, const Case& c, ProbeSize size, Case& layer) {
  device::Opened opened;
  if (size == ProbeSize::small) {
    layer = small_case(c);
    opened = executor.open(layer);
    if (opened.session != nullptr) return opened;
  }
  layer = size == ProbeSize::small ? own_case(c) : full_case(c);
  if (size == ProbeSize::full && too_large(layer.problem))
    return {nullptr, "probes of its own size cost too much"};
  const std::int64_t least = least_hidden(c.problem.op, size), hidden = layer.problem.shape.hidden;
  if (hidden < least && size == ProbeSize::full)
    return {nullptr, fmt::format("probes of its own size need hidden {}", least)};
  if (hidden < least)
    return {nullptr,
            fmt::format("probes of other sizes are refused ({}), and hidden {} is below the {} they need",
                        opened.refusal, hidden, least)};
  return executor.open(layer);
}

/// What a preset's name does not say; `tightest` is the candidate with the least error.
std::string exp_text(const Semantics& tightest) {
  if (tightest.exp_form == ExpForm::recipe) return "";
  return tightest.exp_form == ExpForm::fast ? ", exp within 2 + 1.173 |x| ulp" : ", exp within 2 ulp";
}

}  // namespace

std::string_view name(FieldState state) {
  constexpr std::string_view names[] = {"determined", "undetermined", "irrelevant", "unknown"};
  return names[int(state)];
}

bool Inference::knows(LayerStage stage) const {
  const bool seen = std::find(stages.begin(), stages.end(), name(stage)) != stages.end();
  // One kernel multiplies in both GEMMs of a layer: what is no known sum in one fits another in the other by
  // chance.
  const auto is_gemm = [](std::string_view s) {
    return s == name(LayerStage::gemm1) || s == name(LayerStage::gemm2);
  };
  const auto touches = [&](const Contradiction& c) {
    if (is_gemm(name(stage)) && is_gemm(c.stage)) return true;
    if (c.stage_only || c.stage == name(stage)) return c.stage == name(stage);
    for (int behind = int(stage); behind < kLayerStages; ++behind)
      if (c.stage == name(LayerStage(behind))) return true;
    return false;
  };
  return asked() && seen && !left.empty() &&
         std::none_of(contradictions.begin(), contradictions.end(), touches);
}

std::string Inference::summary() const {
  if (!refusal.empty()) return "no probe could run: " + refusal;
  if (failure)
    return fmt::format("wrong in probe {}: {}: {}", failure->probe, name(failure->verdict.correctness),
                       failure->verdict.reason);
  if (!contradictions.empty()) {
    const Contradiction& c = contradictions.front();
    return fmt::format("unknown: in probe {}, stage {}, {}", c.probe, c.stage, c.text);
  }
  if (!presets.empty()) return fmt::format("{}{}", fmt::join(presets, " or "), exp_text(left.front()));
  std::vector<std::string> words;
  for (const FieldFinding& f : fields)
    if (f.state != FieldState::irrelevant)
      words.push_back(fmt::format("{} {}", f.field, fmt::join(f.values, "|")));
  return fmt::format("no preset: {}", fmt::join(words, ", "));
}

std::string Inference::brief() const {
  if (!asked() || contradictions.empty()) return summary();
  return fmt::format("unknown in stage {} (probe {})", contradictions.front().stage,
                     contradictions.front().probe);
}

namespace {

void ask(Inference& result, device::Executor& executor, ProbeSize size, int threads, std::string& asking) {
  Case layer;
  device::Opened opened = open_probes(executor, result.trial, size, layer);
  if (opened.session == nullptr) {
    result.refusal = opened.refusal.empty() ? "refused without a reason" : opened.refusal;
    return;
  }
  result.layer = layer.problem;
  Inquiry inquiry(result, result.layer, threads);
  for (Probe& probe : make_probes(layer)) {
    asking = probe.name;
    probe.trial = opened.session->resolved();
    opened.session->bind(probe.inputs);
    const device::RunResult given = opened.session->run(device::RunMode::eager);
    const bool explained = inquiry.hear(probe, given.outputs);
    result.failure = judge_probe(probe, given, inquiry.left(), explained, threads);
    if (result.failure) return;
  }
  inquiry.conclude();
}

}  // namespace

Inference infer_semantics(device::Executor& executor, const Case& c, int threads, ProbeSize size) {
  Inference result;
  result.trial = c;
  result.layer = size == ProbeSize::small ? small_case(c).problem : full_case(c).problem;
  std::string asking = "the first";
  try {
    ask(result, executor, size, threads, asking);
  } catch (const WorkerLost& lost) {
    Verdict v;
    v.correctness = lost.timed_out ? Correctness::timed_out : Correctness::crashed;
    v.reason = lost.what();
    v.log = lost.log;
    result.failure = ProbeFailure{asking, std::move(v)};
  } catch (const WorkerRefused& refused) {  // once it saw the numbers: that is its right
    result.refusal = refused.what();
  }
  return result;
}

}  // namespace moe::harness
