#include "device/session/moe_session.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "device/planted/planted.hpp"
#include "device/session/timing.hpp"

namespace moe::device {
namespace {

Pipeline build(Machine& machine, const Case& c, const TensorSet& inputs) {
  switch (c.problem.op) {
    case Op::topk:
      return build_topk(machine, c, inputs);
    case Op::align:
      return build_align(machine, c, inputs);
    case Op::quantize:
      return build_quantize(machine, c, inputs);
    case Op::grouped_gemm:
      return build_grouped_gemm(machine, c, inputs);
    case Op::act_quant:
      return build_act_quant(machine, c, inputs);
    case Op::combine:
      return build_combine(machine, c, inputs);
    case Op::moe_layer:
      return build_moe_layer(machine, c, inputs);
    case Op::inv_rope_quant:
      return build_inv_rope_quant(machine, c, inputs);
  }
  throw std::logic_error(fmt::format("op {} was not refused", name(c.problem.op)));
}

}  // namespace

MoeSession::MoeSession(std::shared_ptr<Machine> machine, Case resolved)
    : machine_(std::move(machine)), case_(std::move(resolved)) {}

MoeSession::~MoeSession() {
  pipeline_ = {};
  machine_->release_all();
}

void MoeSession::bind(const TensorSet& inputs) {
  pipeline_ = {};
  machine_->release_all();
  machine_->take_reports();
  pipeline_ = build(*machine_, case_, inputs);
  graph_ = -1;
  bound_ = true;
}

void MoeSession::launch_all(Counts* counts) {
  bool dependent = false;
  Counts other;
  for (const Stage& stage : pipeline_.stages) {
    const bool counted = counts != nullptr && stage.gemm;
    if (counted) machine_->take_counts(other);  // forget the stages in front
    stage.launch(LaunchPlan{}, dependent);
    if (counted) {
      Counts mine;
      if (machine_->take_counts(mine)) *counts += mine;
    }
    dependent = true;
  }
}

RunResult MoeSession::run(RunMode mode) {
  if (!bound_) throw std::logic_error("MoeSession::run before bind");
  RunResult result;
  if (!pipeline_.stages.empty()) {
    Counts probe;
    result.counted = machine_->take_counts(probe);
    if (mode == RunMode::crowded) machine_->crowd();
    if (mode == RunMode::graph && !result.counted) {
      if (planted(Fault::graph_misses_first_stage)) pipeline_.stages.erase(pipeline_.stages.begin());
      if (graph_ < 0) graph_ = machine_->record([&] { launch_all(nullptr); });
      machine_->replay(graph_);
    } else {
      launch_all(result.counted ? &result.counts : nullptr);
    }
    machine_->synchronize();
    if (result.counted && pipeline_.tiles) result.counts.tiles = pipeline_.tiles();
  }
  pipeline_.collect(result.outputs);
  result.reports = machine_->take_reports();
  return result;
}

Measurement MoeSession::time(const TimingPlan& plan) {
  if (!bound_) throw std::logic_error("MoeSession::time before bind");
  return time_pipeline(*machine_, pipeline_, plan);
}

Opened open_moe_session(const Case& c, const std::function<std::shared_ptr<Machine>()>& make_machine) {
  const Case resolved = resolve_case(c);
  if (std::string refusal = refuse_case(resolved); !refusal.empty()) return {nullptr, std::move(refusal)};
  return {std::make_unique<MoeSession>(make_machine(), resolved), {}};
}

}  // namespace moe::device
