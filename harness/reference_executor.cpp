#include "harness/reference_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/session/moe_session.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/due_outputs.hpp"
#include "reference/inv_rope.hpp"
#include "reference/layer.hpp"
#include "reference/operands.hpp"
#include "reference/truth.hpp"

namespace moe::harness {
namespace {

using reference::StageTensors;
using reference::StageTruth;
using reference::TensorTruth;

std::vector<std::int64_t> first_rows(std::int64_t n) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i);
  return rows;
}

/// The judged rows put back into the canonical tensor; other rows stay zero.
Tensor spread(const TensorTruth& t, std::vector<std::int64_t> shape) {
  Tensor full(t.tensor, t.type, std::move(shape));
  const std::size_t row_bytes = std::size_t(t.columns) * size_of(t.type);
  for (std::size_t i = 0; i < t.rows.size(); ++i)
    std::memcpy(full.data() + std::size_t(t.rows[i]) * row_bytes, t.bits.data() + i * row_bytes, row_bytes);
  return full;
}

using Declaration = decltype(KernelInfo::semantics);

Declaration declaration_of(std::string_view preset) {
  if (preset.empty()) return device::moeproof_kernel().semantics;
  semantics_preset(preset, {});  // throws for a name that is no preset
  return [name = std::string(preset)](const Problem& p, const Choice&) -> std::optional<Semantics> {
    Semantics s = semantics_preset(name, p.quant);
    if (p.shape.weight_on_input) s.weight_place = WeightPlace::input;
    return s;
  };
}

class ReferenceSession : public device::Session {
 public:
  ReferenceSession(Case c, int threads, Declaration declared)
      : case_(std::move(c)), threads_(threads), declared_(std::move(declared)) {}

  void bind(const TensorSet& inputs) override { inputs_ = inputs; }
  device::RunResult run(device::RunMode) override {
    device::RunResult result;
    if (case_.problem.shape.tokens > 0) compute(result.outputs);
    return result;
  }
  Measurement time(const device::TimingPlan&) override { return {}; }
  Case resolved() const override { return case_; }

 private:
  void compute(TensorSet& out);
  void add_routing(TensorSet& out);
  void layer(TensorSet& out, const reference::TruthOptions& options);
  void keep(const StageTruth& truth, std::int64_t rows, TensorSet& out);

  Case case_;
  int threads_;
  Declaration declared_;
  TensorSet inputs_;
};

void ReferenceSession::keep(const StageTruth& truth, std::int64_t rows, TensorSet& out) {
  for (const TensorTruth& t : truth.tensors) {
    const bool whole = t.tensor.ends_with("_scale") && case_.problem.quant.tensor();
    std::vector<std::int64_t> shape{whole ? 1 : rows};
    const bool vector = whole || (t.tensor.ends_with("_scale") && !case_.problem.quant.block());
    if (!vector) shape.push_back(t.columns);
    out.add(spread(t, shape));
  }
}

void ReferenceSession::add_routing(TensorSet& out) {
  const TensorSet routed = reference::routed(case_.problem, inputs_);
  for (const Tensor& t : routed.all()) out.add(t);
}

void ReferenceSession::layer(TensorSet& out, const reference::TruthOptions& options) {
  const Problem& p = case_.problem;
  const auto tokens = first_rows(p.shape.tokens), pairs = first_rows(p.shape.pairs());
  add_routing(out);
  keep(reference::quantize_truth(p, {inputs_, out}, tokens, options), p.shape.tokens, out);
  keep(reference::gemm_truth(p, 1, {inputs_, out}, pairs, options), p.shape.pairs(), out);
  keep(reference::act_quant_truth(p, {inputs_, out}, pairs, options), p.shape.pairs(), out);
  keep(reference::gemm_truth(p, 2, {inputs_, out}, pairs, options), p.shape.pairs(), out);
  keep(reference::combine_truth(p, {inputs_, out}, tokens, options), p.shape.tokens, out);
}

void ReferenceSession::compute(TensorSet& out) {
  const Problem& p = case_.problem;
  const auto semantics = declared_(p, case_.choice);
  const reference::TruthOptions options{&*semantics, true, false, threads_};
  const StageTensors tensors{inputs_, out};
  const auto tokens = first_rows(p.shape.tokens), pairs = first_rows(p.shape.pairs());
  switch (p.op) {
    case Op::moe_layer:
      return layer(out, options);
    case Op::topk:
      add_routing(out);
      return;
    case Op::quantize:
      return keep(reference::quantize_truth(p, tensors, tokens, options), p.shape.tokens, out);
    case Op::act_quant:
      return keep(reference::act_quant_truth(p, tensors, pairs, options), p.shape.pairs(), out);
    case Op::combine:
      return keep(reference::combine_truth(p, tensors, tokens, options), p.shape.tokens, out);
    case Op::inv_rope_quant: {
      const StageTruth truth = reference::inv_rope_truth(p, tensors, options);
      for (const DueTensor& due : due_outputs(p)) out.add(spread(truth.at(due.name), due.shape));
      return;
    }
    case Op::grouped_gemm: {
      std::int64_t rows = 0;
      std::vector<std::int64_t> owned;
      for (const auto& r : reference::contract_gemm(p, inputs_).rows) {
        owned.push_back(r.out);
        rows = std::max(rows, r.out + 1);
      }
      return keep(reference::grouped_gemm_truth(p, inputs_, owned, options), rows, out);
    }
    default:
      throw BadInput(fmt::format("the reference has no op {}", name(p.op)));
  }
}

class ReferenceExecutor : public device::Executor {
 public:
  ReferenceExecutor(int threads, Declaration declared) : threads_(threads), declared_(std::move(declared)) {}
  std::string_view name() const override { return "reference"; }

  std::vector<KernelInfo> kernels() const override {
    KernelInfo info = device::moeproof_kernel();
    info.semantics = declared_;  // what it declares is what is computed here
    info.family = KernelFamily::host;
    std::erase(info.ops, Op::align);
    return {info};
  }

  device::Opened open(const Case& c) override {
    const auto ops = kernels().front().ops;
    if (c.choice.kernel != "moeproof")
      return {nullptr, fmt::format("kernel '{}': the reference answers only for moeproof", c.choice.kernel)};
    if (std::find(ops.begin(), ops.end(), c.problem.op) == ops.end())
      return {nullptr, fmt::format("the reference has no op {}", moe::name(c.problem.op))};
    return {std::make_unique<ReferenceSession>(c, threads_, declared_), ""};
  }

 private:
  int threads_;
  Declaration declared_;
};

}  // namespace

std::unique_ptr<device::Executor> make_reference_executor(int threads, std::string_view preset) {
  return std::make_unique<ReferenceExecutor>(threads, declaration_of(preset));
}

}  // namespace moe::harness
