// An executor for tests whose arithmetic is any function from a layer's inputs to its stage tensors, and
// which declares nothing.
#pragma once
#include <algorithm>
#include <functional>

#include "device/executor.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/candidates.hpp"
#include "reference/layer.hpp"
#include "reference/truth.hpp"

namespace moe::harness {

using LayerFunction = std::function<TensorSet(const Problem&, const TensorSet& inputs)>;

/// What a Semantics gives to the bit.
inline LayerFunction follows(const Semantics& s) {
  return [s](const Problem& p, const TensorSet& inputs) { return reference::exact_layer(p, s, inputs, 1); };
}

/// A Semantics with one stage changed: `change` gets all tensors up to `stage` and may rewrite them; the
/// stages behind follow from what it leaves.
using StageChange = std::function<void(const Problem&, const TensorSet& inputs, TensorSet& outputs)>;
inline LayerFunction changed(const Semantics& s, LayerStage stage, StageChange change) {
  return [=](const Problem& p, const TensorSet& inputs) {
    TensorSet out;
    std::vector<std::int64_t> tokens, pairs;
    for (std::int64_t t = 0; t < p.shape.tokens; ++t) tokens.push_back(t);
    for (std::int64_t i = 0; i < p.shape.pairs(); ++i) pairs.push_back(i);
    const reference::TruthOptions options{&s, true, false, 1};
    for (int i = 0; i < kLayerStages; ++i) {
      const reference::StageTensors in{inputs, out};
      const reference::StageTruth truth = i == 0   ? reference::quantize_truth(p, in, tokens, options)
                                          : i == 1 ? reference::gemm_truth(p, 1, in, pairs, options)
                                          : i == 2 ? reference::act_quant_truth(p, in, pairs, options)
                                          : i == 3 ? reference::gemm_truth(p, 2, in, pairs, options)
                                                   : reference::combine_truth(p, in, tokens, options);
      for (const reference::TensorTruth& t : truth.tensors) out.add(t.bits.renamed(t.tensor));
      if (LayerStage(i) == stage) change(p, inputs, out);
    }
    return out;
  };
}

/// combine that adds the last slot first: right, and of no known Semantics.
inline void last_slot_first(const Problem& p, const TensorSet& inputs, TensorSet& outputs) {
  const auto y = outputs.at("gemm2").as<std::uint16_t>();
  const auto weights = inputs.at("topk_weights").as<float>();
  const std::int64_t k = p.shape.top_k, hidden = p.shape.hidden;
  for (std::int64_t t = 0; t < p.shape.tokens; ++t)
    for (std::int64_t h = 0; h < hidden; ++h) {
      float acc = 0;
      for (std::int64_t pair = (t + 1) * k; pair-- > t * k;)
        acc = __builtin_fmaf(weights[std::size_t(pair)], decode_bf16(y[std::size_t(pair * hidden + h)]), acc);
      outputs.at("out").as<std::uint16_t>()[std::size_t(t * hidden + h)] = encode_bf16(acc);
    }
}

/// What an inference left under the tightest form of exp: the others hold it, and with it more.
inline std::size_t left_but_for_exp(const std::vector<Semantics>& left) {
  return std::size_t(std::count_if(left.begin(), left.end(),
                                   [&](const Semantics& s) { return s.exp_form == left.front().exp_form; }));
}

/// Shows nothing but its result.
inline LayerFunction only_out(LayerFunction compute) {
  return [compute](const Problem& p, const TensorSet& inputs) {
    TensorSet shown;
    shown.add(compute(p, inputs).at("out"));
    return shown;
  };
}

class RoundingSession : public device::Session {
 public:
  RoundingSession(Case c, LayerFunction compute) : case_(std::move(c)), compute_(std::move(compute)) {}
  void bind(const TensorSet& inputs) override { inputs_ = inputs; }
  device::RunResult run(device::RunMode) override {
    device::RunResult result;
    result.outputs = compute_(case_.problem, inputs_);
    return result;
  }
  Measurement time(const device::TimingPlan&) override { return {}; }
  Case resolved() const override { return case_; }

 private:
  Case case_;
  LayerFunction compute_;
  TensorSet inputs_;
};

class RoundingExecutor : public device::Executor {
 public:
  explicit RoundingExecutor(LayerFunction compute) : compute_(std::move(compute)) {}
  std::string_view name() const override { return "rounding"; }
  std::vector<KernelInfo> kernels() const override {
    KernelInfo info;
    info.name = "moeproof";
    info.ops = {Op::moe_layer};
    return {info};
  }
  device::Opened open(const Case& c) override {
    ++opened;
    if (c.problem.shape.hidden == refused_hidden) return {nullptr, "other sizes only"};
    return {std::make_unique<RoundingSession>(c, compute_), ""};
  }

  int opened = 0;
  std::int64_t refused_hidden = 0;

 private:
  LayerFunction compute_;
};

}  // namespace moe::harness
