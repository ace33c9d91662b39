#include "harness/properties/subject.hpp"

#include <algorithm>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/due_outputs.hpp"

namespace moe::harness {
namespace {

Tensor tensor_of(const char* name, DType type, const Routing& r, const void* bytes) {
  Tensor t(name, type, {r.tokens, r.top_k});
  if (!t.empty()) std::copy_n(static_cast<const std::byte*>(bytes), t.bytes(), t.data());
  return t;
}

/// A layer whose ids and weights are inputs; every other op as it is. No tensor may be drawn again by a
/// worker.
TensorSet given_inputs(const Problem& p, const Routing& routing, const TensorSet& inputs) {
  TensorSet given;
  const bool layer = p.op == Op::moe_layer;
  for (const Tensor& t : inputs.all())
    if (!layer || (t.name() != "router_logits" && t.name() != "router_bias")) given.add(t);
  if (layer && !given.has("topk_ids")) {
    given.add(tensor_of("topk_ids", DType::i32, routing, routing.ids.data()));
    given.add(tensor_of("topk_weights", DType::f32, routing, routing.weights.data()));
  }
  for (Tensor& t : given.all()) t.generated.reset();
  return given;
}

Case given_case(Case c, const Routing& routing) {
  Problem& p = c.problem;
  const int local = p.shape.local_experts();
  c.choice = resolve_tiles(c.choice, p, routing.load(p.rank * local, local));
  if (p.op != Op::moe_layer) return c;
  p.routing = {};
  p.routing.load.kind = LoadKind::trace;
  p.routing.load.path = "given";  // a name: nobody reads it
  return c;
}

/// Nothing may read a tensor that is not as due; stages that a kernel does not show are not asked for.
void require_shapes(const Case& c, const TensorSet& inputs, const TensorSet& outputs) {
  if (c.problem.shape.tokens == 0) return;
  std::vector<DueTensor> due = all_due_outputs(c, inputs);
  std::erase_if(due,
                [&](const DueTensor& d) { return d.name != "out" && d.name != "c" && !outputs.has(d.name); });
  if (const std::string misfit = first_misfit(due, outputs); !misfit.empty()) throw RunFinding(misfit);
}

}  // namespace

Subject::Subject(const Case& resolved, const Routing& routing, const TensorSet& inputs,
                 const SubjectPlan& plan)
    : case_(given_case(resolved, routing)),
      routing_(routing),
      inputs_(given_inputs(resolved.problem, routing, inputs)),
      plan_(plan) {}

ExpertLoad Subject::load() const { return routing_.load(first_expert(), shape().local_experts()); }

const TensorSet& Subject::outputs() {
  if (!outputs_) outputs_ = run(inputs_);
  return *outputs_;
}

void Subject::open(const Case& c) {
  const std::string line = to_line(c);
  if (line == opened_ && session_ != nullptr) return;
  session_.reset();  // a worker has one session
  device::Opened opened = plan_.executor->open(c);
  if (opened.session == nullptr) throw NotApplicable("refused: " + opened.refusal);
  session_ = std::move(opened.session);
  opened_ = line;
}

TensorSet Subject::run(const TensorSet& inputs, device::RunMode mode) { return run_as(case_, inputs, mode); }

TensorSet Subject::run_as(const Case& c, const TensorSet& inputs, device::RunMode mode) {
  open(c);
  session_->bind(inputs);
  device::RunResult result = session_->run(mode);
  if (!result.reports.empty()) throw RunFinding(result.reports.front());
  if (plan_.foreign) require_shapes(c, inputs, result.outputs);
  return std::move(result.outputs);
}

std::string Subject::refusal_of(const Case& c) {
  session_.reset();  // a worker that refuses a case has closed the one before
  const device::Opened opened = plan_.executor->open(c);
  if (opened.session != nullptr) return {};
  return opened.refusal.empty() ? "no reason" : opened.refusal;
}

Case Subject::case_of(DataMode data) const {
  Case c = case_;
  c.problem.data = data;
  c.problem.files = {};
  return c;
}

TensorSet Subject::inputs_of(DataMode data) const {
  const Case c = case_of(data);
  TensorSet drawn =
      given_inputs(c.problem, routing_, make_inputs(c.problem, c.choice, routing_, plan_.threads));
  if (op() == Op::moe_layer) {
    const auto weights = drawn.at("topk_weights").as<float>();
    std::fill(weights.begin(), weights.end(), 1.0f / float(shape().top_k));
  }
  return drawn;
}

}  // namespace moe::harness
