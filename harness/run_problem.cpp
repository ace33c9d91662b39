#include "harness/run_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/adopt_kernel.hpp"
#include "harness/child_process.hpp"
#include "harness/due_outputs.hpp"
#include "harness/infer/finder.hpp"
#include "harness/judge.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/try_properties.hpp"
#include "harness/same_bits.hpp"
#include "harness/tensor_notes.hpp"
#include "harness/twins.hpp"
#include "harness/worker_protocol.hpp"
#include "harness/worker_session.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

Verdict verdict_of(Correctness word, std::string reason) {
  Verdict v;
  v.correctness = word;
  v.reason = std::move(reason);
  return v;
}

/// True where both runs gave the same bytes.
bool same_outputs(const TensorSet& a, const TensorSet& b) {
  for (const Tensor& t : a.all()) {
    const Tensor* other = b.find(t.name());
    if (other == nullptr || other->bytes() != t.bytes() ||
        (t.bytes() > 0 && std::memcmp(t.data(), other->data(), t.bytes()) != 0))
      return false;
  }
  return true;
}

/// Opens the case and says what it is judged by. Probes run in a session of their own, once a kernel: the
/// case's is opened again behind them.
Ground open_grounded(const Case& c, const RunPlan& plan, device::Opened& opened, Case& resolved) {
  Ground ground;
  opened = plan.executor->open(c);
  if (opened.session == nullptr) return ground;
  resolved = opened.session->resolved();
  if (!plan.infer) ground.declared = declared_semantics(*plan.executor, resolved);
  const Problem& p = c.problem;
  const bool rounds = !stages_of(p.op).empty() && p.shape.tokens > 0;
  if (ground.declared || plan.finder == nullptr || !rounds) return ground;
  ground.inferred = plan.finder->known(resolved);
  if (ground.inferred != nullptr) return ground;
  opened.session.reset();
  ground.inferred = &plan.finder->of(resolved);
  opened = plan.executor->open(c);
  return ground;
}

/// What a report of a process is about, where it is one of ours: a child's own words stand for themselves.
std::string fault_of_report(const std::string& report) {
  if (report.find("after its answer") != std::string::npos) return "a write behind the answer";
  if (report.find("out of bounds") != std::string::npos) return "a write to memory that is not the kernel's";
  if (report.find("changed its input") != std::string::npos) return "a write to an input";
  if (report.find("cannot be read") != std::string::npos) return "an outputs file that breaks the protocol";
  return "";
}

/// Tensors of `given` that the op has, and the names of the others.
TensorSet of_the_op(const Case& c, const TensorSet& inputs, const TensorSet& given, std::string& others) {
  const std::vector<DueTensor> due = all_due_outputs(c, inputs);
  TensorSet known;
  for (const Tensor& t : given.all()) {
    const bool has =
        std::any_of(due.begin(), due.end(), [&](const DueTensor& d) { return d.name == t.name(); });
    if (has || t.name().starts_with("topk_"))
      known.add(t);
    else
      others += fmt::format("{}'{}'", others.empty() ? "" : ", ", one_line(t.name().substr(0, 64)));
  }
  return known;
}

/// Of a kernel whose rounding probes did not find, on data that cannot tell roundings apart.
void say_any_rounding(const Inference& found, Verdict& v) {
  const bool foreign = !found.contradictions.empty();
  v.reason += fmt::format("{}all known roundings give these bits, so that such data cannot tell them apart{}",
                          v.reason.empty() ? "" : ": ", foreign ? "; in probes it follows none of them" : "");
}

Verdict judge_run(const Case& c, const TensorSet& inputs, const device::RunResult& result,
                  const RunPlan& plan, const Ground& ground, bool* ask_full_size = nullptr) {
  JudgePlan how;
  how.semantics = ground.declared;
  how.by_interval =
      !plan.infer &&
      plan.executor->name() == "reference";  // its bits against bounds that share no arithmetic with it
  how.sparse_weights = ground.sparse_weights;
  how.budget = plan.judge_budget;
  how.threads = plan.threads;
  const bool foreign = plan.executor->name().starts_with(kProcessPrefix);
  std::string others;
  const TensorSet outputs = foreign ? of_the_op(c, inputs, result.outputs, others) : result.outputs;
  InferredVerdict found;
  const bool any_rounding = ground.inferred != nullptr && ground.inferred->asked() &&
                            !ground.inferred->known() && same_bits_for_op(c.problem, inputs);
  if (ground.inferred != nullptr && !any_rounding)
    found = judge_inferred(c, inputs, outputs, how, *ground.inferred, ground.full_size);
  else
    found.verdict = judge(c, inputs, outputs, how);
  if (any_rounding && found.verdict.correctness == Correctness::passed)
    say_any_rounding(*ground.inferred, found.verdict);
  if (ask_full_size != nullptr) *ask_full_size = *ask_full_size || found.ask_full_size;
  Verdict v = std::move(found.verdict);
  if (!result.reports.empty()) {
    v.correctness = Correctness::failed;
    v.reason = result.reports.front() + (v.reason.empty() ? "" : "; " + v.reason);
    if (v.fault_class.empty())
      v.fault_class = foreign ? fault_of_report(result.reports.front()) : "a protocol fault";
  }
  if (!others.empty())
    v.reason += fmt::format("{}not judged: {}, which op {} does not have", v.reason.empty() ? "" : "; ",
                            others, name(c.problem.op));
  if (const std::string notes = tensor_notes(c, inputs, outputs); !notes.empty())
    v.reason += (v.reason.empty() ? "" : "; ") + notes;
  return v;
}

bool not_bad(const Verdict& v) {
  return v.correctness == Correctness::passed || v.correctness == Correctness::mistrusted;
}

/// A wrong kernel that gives other bytes in a second run is told both.
void note_other_bytes(OpenTrial& trial, const device::RunResult& first, const RunPlan& plan, Verdict& v) {
  if (plan.repeats < 2 || v.correctness != Correctness::failed) return;
  try {
    const device::RunResult next = trial.session->run(device::RunMode::eager);
    if (!same_outputs(first.outputs, next.outputs)) v.reason += "; a second run gave different bytes";
  } catch (const WorkerLost& lost) {
    v.reason += fmt::format("; a second run: {}", lost.what());
  }
}

/// What a kernel writes while its answer is judged already, in a thread or on a stream that it left behind.
Verdict with_late_write(Verdict v, const device::Session& session) {
  const std::string late = not_bad(v) ? late_write(session) : "";
  if (late.empty()) return v;
  v = verdict_of(Correctness::failed, late);
  v.fault_class = fault_of_report(late);
  return v;
}

/// Runs `repeats` times, and once as a graph where the plan says so; the first bad verdict stands.
Verdict run_and_judge(OpenTrial& trial, const TensorSet& inputs, const RunPlan& plan) {
  const Case& c = trial.record.trial;
  const Ground& ground = trial.ground;
  device::RunResult first = trial.session->run(device::RunMode::eager);
  if (first.counted) trial.record.counts = first.counts;
  trial.outputs = first.outputs;
  Verdict v = judge_run(c, inputs, first, plan, ground, &trial.ask_full_size);
  if (trial.ask_full_size) return v;
  const int runs = plan.repeats + (plan.graph ? 1 : 0);
  if (!not_bad(v)) {
    trial.failed_run = 0;
    note_other_bytes(trial, first, plan, v);
  }
  for (int i = 1; i < runs && not_bad(v); ++i) {
    const device::RunResult next =
        trial.session->run(i < plan.repeats ? device::RunMode::eager : device::RunMode::graph);
    if (next.reports.empty() && same_outputs(first.outputs, next.outputs)) continue;
    Verdict other = judge_run(c, inputs, next, plan, ground);
    if (not_bad(other) && !is_deterministic(*plan.executor, c)) {
      if (v.correctness == Correctness::passed) v = std::move(other);
      continue;
    }
    v = std::move(other);
    trial.failed_run = i;
    if (not_bad(v)) v = verdict_of(Correctness::failed, "two runs gave different bytes");
    v.fault_class = "an order of events that matters";
  }
  return with_late_write(std::move(v), *trial.session);
}

/// The choice as the model knows it: a kernel of another process goes by its family, with the stages and
/// warps that it declares.
Choice modelled(Choice choice, const device::Executor& executor) {
  for (const KernelInfo& kernel : executor.kernels()) {
    if (kernel.name != choice.kernel || kernel.family != KernelFamily::triton_fused_moe) continue;
    choice.kernel = sim::kTritonKernel;
    for (TileConfig* tile : {&choice.tile, &choice.tile_down}) {
      if (tile->stages == 0) tile->stages = kernel.num_stages;
      if (tile->warps == 0) tile->warps = kernel.num_warps;
    }
    break;
  }
  return choice;
}

/// Empty where the model has no word for the kernel or the choice: the executor may yet take it, or refuse it
/// with its own reason.
std::optional<Prediction> predict(const Case& c, const Routing& routing, const RunPlan& plan) {
  try {
    return sim::predict(c.problem, modelled(c.choice, *plan.executor), *plan.hardware, routing);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

/// Opens the case again behind another one; false, with a verdict, where the kernel refuses it now.
bool open_again(OpenTrial& trial, const Case& asked, const TensorSet& inputs, const RunPlan& plan) {
  device::Opened opened = plan.executor->open(asked);
  trial.session = std::move(opened.session);
  if (trial.session == nullptr) {
    trial.record.verdict =
        verdict_of(Correctness::failed, "the kernel ran the case and then refused it: " + opened.refusal);
    return false;
  }
  trial.session->bind(inputs);
  return true;
}

/// Asks the kernel with probes of the case's size, then runs the case again in a session of its own.
void run_with_full_size(OpenTrial& trial, const Case& asked, const TensorSet& inputs, const RunPlan& plan) {
  trial.ask_full_size = false;
  trial.session.reset();
  trial.ground.full_size = &plan.finder->of_full_size(trial.record.trial);
  if (open_again(trial, asked, inputs, plan)) trial.record.verdict = run_and_judge(trial, inputs, plan);
}

/// Of data with one or two products a sum the kernel's roundings need not be known.
const Ground kSparse{std::nullopt, nullptr, nullptr, true};

/// `v`, and what the case's twin says.
Verdict asked_twin(Verdict v, const Twin& twin, const Ground& ground, const RunPlan& plan) {
  if (!twin.obstacle.empty()) return without_twin(std::move(v), twin, twin.obstacle);
  const Case& c = twin.trial;
  const Routing routing = routing_of(c.problem);
  if (const std::string why = no_room(c.problem, routing, plan); !why.empty())
    return without_twin(std::move(v), twin, why);
  device::Opened opened = plan.executor->open(c);
  if (opened.session == nullptr)
    return without_twin(std::move(v), twin, "the kernel refuses it: " + opened.refusal);
  try {
    const TensorSet inputs = twin_inputs(twin, routing, plan.threads);
    opened.session->bind(inputs);
    const device::RunResult result = opened.session->run(device::RunMode::eager);
    return with_twin(std::move(v), twin,
                     judge_run(c, inputs, result, plan, twin.kind == TwinKind::exact ? ground : kSparse));
  } catch (const WorkerRefused& refused) {  // once it saw the numbers: that is its right
    return without_twin(std::move(v), twin, std::string("the kernel refuses it: ") + refused.what());
  }
}

/// What bounds alone judge is run once more with data that leave less room. The case's own line repeats that.
void run_twins(OpenTrial& trial, const Case& asked, const TensorSet& inputs, const RunPlan& plan) {
  Verdict& v = *trial.record.verdict;
  const std::vector<Twin> twins = twins_of(trial.record.trial, v);
  if (twins.empty() || trial.ground.inferred == nullptr) return;
  trial.session.reset();
  for (const Twin& twin : twins)
    if (not_bad(v)) v = asked_twin(std::move(v), twin, trial.ground, plan);
  open_again(trial, asked, inputs, plan);
}

/// The probes that the kernel was wrong in; null where there are none.
const Inference* failed_probes(const Ground& ground) {
  for (const Inference* found : {ground.inferred, ground.full_size})
    if (found != nullptr && found->failure) return found;
  return nullptr;
}

/// Repeats the probes of a case's kernel.
std::string probes_line(const Case& c, const RunPlan& plan) {
  return fmt::format("{} infer-semantics --executor {} {}--case {}", shell_word(plan.program),
                     shell_word(plan.executor->name()), plan.patience, shell_word(to_line(c)));
}

void open_and_judge(OpenTrial& trial, const Routing& routing, const TensorSet& inputs, const RunPlan& plan) {
  CaseRecord& record = trial.record;
  const Case asked = record.trial;
  device::Opened opened;
  trial.ground = open_grounded(asked, plan, opened, record.trial);
  const bool foreign = plan.executor->name().starts_with(kProcessPrefix);
  if (!foreign || opened.session != nullptr) record.prediction = predict(record.trial, routing, plan);
  if (opened.session == nullptr) {
    record.verdict = verdict_of(Correctness::refused, opened.refusal);
    return;
  }
  trial.session = std::move(opened.session);
  plan.before_launch(replay_line(record.trial, plan));
  trial.session->bind(inputs);
  record.verdict = run_and_judge(trial, inputs, plan);
  if (trial.ask_full_size) run_with_full_size(trial, asked, inputs, plan);
  run_twins(trial, asked, inputs, plan);
  const Inference* wrong = failed_probes(trial.ground);
  if (wrong == nullptr || !not_bad(*record.verdict)) return;
  record.verdict = probe_verdict(*wrong);
  if (wrong == trial.ground.inferred) trial.replay = probes_line(record.trial, plan);
}

/// What a kernel says may hold anything: one printable line of it, not too long for a report.
std::string bounded_line(const std::string& text) {
  constexpr std::size_t kMost = 2000;
  return text.size() <= kMost ? one_line(text) : one_line(text.substr(0, kMost)) + " ...";
}

CaseRecord run_choice(const Case& c, const Routing& routing, const TensorSet& inputs, const RunPlan& plan) {
  OpenTrial trial = open_trial(c, routing, inputs, plan);
  if (plan.timing && trial.passed()) {
    in_trial(trial, plan, [&] { trial.record.measurement = trial.session->time(*plan.timing); });
    if (trial.passed() && !trial.record.measurement->seconds.empty()) judge_again(trial, inputs, plan);
  }
  if (!plan.properties.empty()) try_properties(trial, routing, inputs, plan);
  return std::move(trial.record);
}

Case with_kernel(const Case& c, const device::Executor& executor);

std::vector<CaseRecord> refused(const Problem& problem, const std::vector<Choice>& choices,
                                const std::string& why, const RunPlan& plan) {
  std::vector<CaseRecord> records;
  for (const Choice& choice : choices) {
    CaseRecord record;
    record.trial = with_kernel({problem, choice}, *plan.executor);
    record.verdict = verdict_of(Correctness::refused, why);
    record.verdict->replay = replay_line(record.trial, plan);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

bool is_deterministic(const device::Executor& executor, const Case& c) {
  for (const KernelInfo& kernel : executor.kernels())
    if (kernel.name == c.choice.kernel) return kernel.deterministic;
  return true;
}

std::optional<Semantics> declared_semantics(const device::Executor& executor, const Case& c) {
  for (const KernelInfo& kernel : executor.kernels())
    if (kernel.name == c.choice.kernel && kernel.semantics != nullptr)
      return kernel.semantics(c.problem, c.choice);
  return std::nullopt;
}

std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return std::isalnum(letter) || std::strchr("/._-+", letter) != nullptr;
  });
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

namespace {

/// The plain order and, of the others, all that were asked for or the one that failed.
std::string schedule_options(const RunPlan& plan, std::optional<int> failed_run) {
  if (plan.executor->name() != "emulated" || plan.repeats < 2 || failed_run == 0) return "";
  const int first = plan.first_schedule + (failed_run ? *failed_run - 1 : 0);
  return fmt::format("--schedules {} ", failed_run ? 2 : plan.repeats) +
         (first == 1 ? "" : fmt::format("--first-schedule {} ", first));
}

}  // namespace

namespace {

/// The case as a process is asked it: where nobody chose a kernel, the first that takes it, else the first of
/// its op, or of all, so that a case that is lost or refused before it is open has its kernel's name too.
Case with_kernel(const Case& c, const device::Executor& executor) {
  if (!executor.name().starts_with(kProcessPrefix) || c.choice.kernel != Choice{}.kernel) return c;
  Case named = c;
  const std::vector<KernelInfo> kernels = executor.kernels();
  for (const KernelInfo& kernel : kernels)
    if (kernel.name == c.choice.kernel) return c;
  const auto has_op = [&](const KernelInfo& k) {
    return std::find(k.ops.begin(), k.ops.end(), c.problem.op) != k.ops.end();
  };
  auto fits =
      std::find_if(kernels.begin(), kernels.end(), [&](const KernelInfo& k) { return takes(k, c.problem); });
  if (fits == kernels.end()) fits = std::find_if(kernels.begin(), kernels.end(), has_op);
  if (!kernels.empty()) named.choice.kernel = fits == kernels.end() ? kernels.front().name : fits->name;
  return named;
}

}  // namespace

std::string replay_line(const Case& c, const RunPlan& plan, std::optional<int> failed_run) {
  return fmt::format("{} check --executor {} {}{}--case {}", shell_word(plan.program),
                     shell_word(plan.executor->name()), plan.options, schedule_options(plan, failed_run),
                     shell_word(to_line(c)));
}

bool inputs_follow_tile(const Problem& p) {
  return p.op == Op::align || (p.op == Op::grouped_gemm && p.contract == Contract::routed);
}

std::string no_room(const Problem& problem, const Routing& routing, const RunPlan& plan) {
  const bool two_runs = plan.repeats > 1 || plan.graph;
  const MemoryUse use{std::string(plan.executor->name()), plan.isolated, plan.timing.has_value(), two_runs,
                      plan.judge_budget};
  return memory_refusal(problem, sim::local_load(problem, routing), use, plan.room);
}

void in_trial(OpenTrial& trial, const RunPlan& plan, const std::function<void()>& work) {
  CaseRecord& record = trial.record;
  const double started = plan.now();
  try {
    work();
  } catch (const WorkerLost& lost) {
    record.verdict = verdict_of(lost.timed_out ? Correctness::timed_out : Correctness::crashed, lost.what());
    record.verdict->log = lost.log;
  } catch (const WorkerRefused& refused) {
    record.verdict = verdict_of(Correctness::refused, refused.what());
  }
  record.verdict->reason = bounded_line(record.verdict->reason);
  record.verdict->replay =
      trial.replay.empty() ? replay_line(record.trial, plan, trial.failed_run) : trial.replay;
  record.elapsed_s += plan.now() - started;
}

OpenTrial open_trial(const Case& c, const Routing& routing, const TensorSet& inputs, const RunPlan& plan) {
  OpenTrial trial;
  trial.record.trial = with_kernel(c, *plan.executor);
  in_trial(trial, plan, [&] { open_and_judge(trial, routing, inputs, plan); });
  return trial;
}

void judge_again(OpenTrial& trial, const TensorSet& inputs, const RunPlan& plan) {
  in_trial(trial, plan, [&] {
    const device::RunResult again = trial.session->run(device::RunMode::eager);
    Verdict after = judge_run(trial.record.trial, inputs, again, plan, trial.ground);
    if (after.correctness == Correctness::passed) return;
    after.reason = "after the timing: " + after.reason;
    trial.replay.clear();
    trial.record.verdict = std::move(after);
  });
}

namespace {

/// As many threads as the problem keeps busy: to start one takes as long as these multiply-adds or the bytes
/// of so many weights, and every stage starts its own. Results are the same for any number.
int busy_threads(const Problem& p, int most) {
  constexpr double kWorkOfThread = 4e6;
  const MoeShape& s = p.shape;
  const double per_row =
      double(s.up_rows()) * double(s.hidden) + double(s.hidden) * double(s.local_intermediate());
  const double rows = double(s.pairs()) + s.local_experts();
  const double values = double(s.tokens) * (double(s.experts) + double(p.local_heads()) * HeadShape::kDim);
  return int(std::clamp((per_row * rows + values) / kWorkOfThread, 1.0, double(std::max(most, 1))));
}

}  // namespace

std::vector<CaseRecord> run_problem(const Problem& problem, const std::vector<Choice>& choices,
                                    const RunPlan& given) {
  RunPlan plan = given;
  plan.threads = busy_threads(problem, given.threads);
  const Routing routing = routing_of(problem);
  if (const std::string why = no_room(problem, routing, plan); !why.empty())
    return refused(problem, choices, why, plan);
  TensorSet inputs;
  std::vector<CaseRecord> records;
  for (const Choice& choice : choices) {
    if (records.empty() || inputs_follow_tile(problem))
      inputs = make_inputs(problem, choice, routing, plan.threads);
    records.push_back(run_choice({problem, choice}, routing, inputs, plan));
  }
  fill_speedups(records);
  return records;
}

}  // namespace moe::harness
