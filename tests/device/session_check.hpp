// What must a session's outputs be, stage by stage? Each stage is computed by reference's exact functions
// from the session's own output of the stage in front, under the Semantics that the kernels declare. Test
// code.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "device/emulator/emulated_executor.hpp"
#include "device/session/moe_session.hpp"
#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/exact/exact_gemm.hpp"
#include "reference/exact/exact_stages.hpp"
#include "reference/tensor_core/mma_step.hpp"

namespace moe::device::test {

/// The executor that the program uses too, with three SMs and the exact arithmetic.
inline std::unique_ptr<Executor> exact_executor() {
  EmulatedPlan plan;
  plan.arithmetic = reference::mma_step();
  plan.threads = 2;
  plan.sms = 3;
  return make_emulated_executor(plan);
}

template <class T>
std::vector<T> values(const TensorSet& set, const std::string& name) {
  const auto span = set.at(name).as<T>();
  return {span.begin(), span.end()};
}

/// Looks at one run of moe_layer. `inputs` is what was bound.
class LayerCheck {
 public:
  LayerCheck(const Case& c, const TensorSet& inputs, const TensorSet& out)
      : problem_(c.problem),
        shape_(c.problem.shape),
        quant_(c.problem.quant),
        inputs_(inputs),
        out_(out),
        semantics_(moeproof_kernel().semantics(c.problem, c.choice).value()),
        ids_(values<std::int32_t>(out, "topk_ids")),
        weights_(values<float>(out, "topk_weights")) {}

  void all() {
    x_codes();
    gemm("gemm1", "x_codes", "x_scale", "w13", shape_.up_rows(), shape_.hidden, shape_.top_k);
    act_codes();
    gemm("gemm2", "act_codes", "act_scale", "w2", shape_.hidden, shape_.local_intermediate(), 1);
    combined();
  }

 private:
  using Bits = std::vector<std::uint16_t>;

  int local(std::int64_t pair) const {
    const int expert = ids_[std::size_t(pair)] - problem_.rank * shape_.local_experts();
    return expert >= 0 && expert < shape_.local_experts() ? expert : -1;
  }
  std::int64_t scales_a_row(std::int64_t k) const {
    return quant_.block() ? k / 128 : quant_.tensor() ? 0 : 1;
  }

  void x_codes() const {
    const Bits hidden = values<std::uint16_t>(inputs_, "hidden");
    const std::int64_t h = shape_.hidden, blocks = scales_a_row(h);
    const auto row = [&](std::int64_t t) {
      return std::span(hidden).subspan(std::size_t(t * h), std::size_t(h));
    };
    const auto weight = [&](std::int64_t t) {
      return shape_.weight_on_input ? &weights_[std::size_t(t)] : nullptr;
    };
    float amax = 0;
    for (std::int64_t t = 0; t < shape_.tokens; ++t) {
      for (std::uint16_t bits : row(t)) {
        float x = decode_bf16(bits);
        if (weight(t) != nullptr) x = decode_bf16(encode_bf16(x * *weight(t)));
        amax = std::max(amax, std::fabs(x));
      }
    }
    const auto whole = whole_scale(amax, "a1_scale");
    std::vector<std::uint8_t> codes(hidden.size());
    std::vector<float> scales(std::size_t(quant_.tensor() ? 1 : shape_.tokens * blocks));
    for (std::int64_t t = 0; t < shape_.tokens; ++t) {
      reference::exact_quantize_row(semantics_, quant_, row(t), weight(t), whole, codes.data() + t * h,
                                    scales.data() + t * blocks);
    }
    if (quant_.tensor()) scales[0] = whole.scale;
    EXPECT_EQ(values<std::uint8_t>(out_, "x_codes"), codes);
    EXPECT_EQ(values<float>(out_, "x_scale"), scales);
  }

  reference::TensorScale whole_scale(float amax, const char* given) const {
    if (quant_.kind == QuantKind::tensor_static) return {0, inputs_.at(given).as<float>()[0]};
    return quant_.kind == QuantKind::tensor_dynamic ? reference::exact_tensor_scale(semantics_, quant_, amax)
                                                    : reference::TensorScale{};
  }

  void gemm(const char* stage, const char* codes_name, const char* scale_name, const std::string& w,
            std::int64_t n, std::int64_t k, int pairs_a_row) const {
    const auto codes = values<std::uint8_t>(out_, codes_name);
    const auto scale = values<float>(out_, scale_name);
    const Tensor &weights = inputs_.at(w), &w_scale = inputs_.at(w + "_scale");
    const std::int64_t w_scales = w_scale.size() / shape_.local_experts();
    Bits want(std::size_t(shape_.pairs() * n));
    for (std::int64_t p = 0; p < shape_.pairs(); ++p) {
      const int e = local(p);
      if (e < 0) continue;
      const auto row = std::int32_t(p / pairs_a_row);
      reference::GemmOperands g;
      g.a = codes.data();
      g.lda = k;
      g.a_rows = &row;
      g.a_scale = reference::activation_scales(canonical(quant_), scale.data(), k);
      g.w = weights.as<std::uint8_t>().data() + e * n * k;
      g.ldw = k;
      g.w_scale = reference::weight_scales(quant_, w_scale.as<float>().data() + e * w_scales, k);
      if (shape_.bias) g.bias = inputs_.at(w + "_bias").as<float>().data() + e * n;
      g.rows = 1;
      g.n = n;
      g.k = k;
      g.scheme = quant_;
      reference::exact_gemm_bf16(semantics_, g, want.data() + p * n, 1);
    }
    EXPECT_EQ(values<std::uint16_t>(out_, stage), want) << stage;
  }

  static QuantScheme canonical(QuantScheme quant) {
    quant.scale_layout = ScaleLayout::row;
    return quant;
  }

  void act_codes() const {
    const Bits gemm1 = values<std::uint16_t>(out_, "gemm1");
    const std::int64_t u = shape_.up_rows(), i = shape_.local_intermediate(), blocks = scales_a_row(i);
    const auto row = [&](std::int64_t p) {
      return std::span(gemm1).subspan(std::size_t(p * u), std::size_t(u));
    };
    float amax = 0;
    std::vector<float> activated{std::vector<float>(std::size_t(i))};
    for (std::int64_t p = 0; p < shape_.pairs(); ++p) {
      if (local(p) < 0) continue;
      reference::exact_activation_row(shape_, semantics_, row(p), activated);
      for (float x : activated) amax = std::max(amax, std::fabs(x));
    }
    const auto whole = whole_scale(amax, "a2_scale");
    std::vector<std::uint8_t> codes(std::size_t(shape_.pairs() * i));
    std::vector<float> scales(std::size_t(quant_.tensor() ? 1 : shape_.pairs() * blocks));
    for (std::int64_t p = 0; p < shape_.pairs(); ++p) {
      if (local(p) < 0) continue;
      reference::exact_act_quant_row(shape_, semantics_, quant_, row(p), whole, codes.data() + p * i,
                                     scales.data() + p * blocks);
    }
    if (quant_.tensor()) scales[0] = whole.scale;
    EXPECT_EQ(values<std::uint8_t>(out_, "act_codes"), codes);
    EXPECT_EQ(values<float>(out_, "act_scale"), scales);
  }

  void combined() const {
    const Bits gemm2 = values<std::uint16_t>(out_, "gemm2");
    const std::int64_t h = shape_.hidden, k = shape_.top_k;
    Bits want(std::size_t(shape_.tokens * h));
    for (std::int64_t t = 0; t < shape_.tokens; ++t) {
      std::vector<const std::uint16_t*> rows;
      for (std::int64_t p = t * k; p < (t + 1) * k; ++p)
        rows.push_back(local(p) < 0 ? nullptr : gemm2.data() + p * h);
      std::span<const float> weights = std::span(weights_).subspan(std::size_t(t * k), std::size_t(k));
      if (shape_.weight_on_input) weights = {};
      reference::exact_combine_row(semantics_, rows, weights,
                                   std::span(want).subspan(std::size_t(t * h), std::size_t(h)));
    }
    EXPECT_EQ(values<std::uint16_t>(out_, "out"), want);
  }

  const Problem& problem_;
  const MoeShape& shape_;
  const QuantScheme& quant_;
  const TensorSet &inputs_, &out_;
  Semantics semantics_;
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
};

}  // namespace moe::device::test
