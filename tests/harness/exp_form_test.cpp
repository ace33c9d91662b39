// Kernels whose exp is not the recipe: recognised but for their exp, judged to the bit but for what its
// documented error leaves open.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/finder.hpp"
#include "reference/exact/exact_stages.hpp"
#include "reference/open_activation.hpp"
#include "reference/stage_rows.hpp"
#include "tests/harness/rounding_executor.hpp"

namespace moe::harness {
namespace {

constexpr float kLog2E = 1.44269504f;

/// `steps` floats further from zero (or nearer).
float step(float x, int steps) {
  const bool whole = std::isnormal(x) && std::isnormal(bits_float(float_bits(x) + std::uint32_t(steps)));
  return whole ? bits_float(float_bits(x) + std::uint32_t(steps)) : x;
}

struct Silu {
  const char* what;
  ExpForm form;  // the tightest that holds it
  float (*compute)(float g);
};

/// A spread of errors that depends on nothing but the argument.
int error_of(float x, int most) { return int(float_bits(x) * 2654435761u >> 8) % (2 * most + 1) - most; }

const Silu kSilus[] = {
    {"std::exp", ExpForm::within_2_ulp, [](float g) { return g / (1.0f + std::exp(-g)); }},
    {"2 ulp off", ExpForm::within_2_ulp,
     [](float g) { return g / (1.0f + step(std::exp(-g), error_of(g, 2))); }},
    {"reciprocal", ExpForm::within_2_ulp, [](float g) { return g * (1.0f / (1.0f + std::exp(-g))); }},
    {"exp2 of a product", ExpForm::fast, [](float g) { return g / (1.0f + std::exp2(-g * kLog2E)); }},
    {"fast exp, divided 2 ulp off", ExpForm::fast, [](float g) {
       return step(g / (1.0f + step(std::exp2(-g * kLog2E), error_of(g, 2))), error_of(g * 3, 2));
     }}};

/// The layer of `s` with another silu.
LayerFunction with_silu(const Semantics& s, float (*silu)(float)) {
  return changed(s, LayerStage::act_quant, [=](const Problem& p, const TensorSet&, TensorSet& out) {
    const auto inner = std::size_t(p.shape.local_intermediate()),
               groups = std::size_t(reference::scale_groups(p.quant.kind, std::int64_t(inner)));
    const auto gemm1 = out.at("gemm1").as<std::uint16_t>();
    for (std::size_t pair = 0; pair < std::size_t(p.shape.pairs()); ++pair) {
      std::vector<float> h(inner);
      for (std::size_t i = 0; i < inner; ++i) {
        float gate = silu(decode_bf16(gemm1[pair * 2 * inner + i]));
        if (s.gate_rounding == GateRounding::bf16) gate = decode_bf16(encode_bf16(gate));
        h[i] = gate * decode_bf16(gemm1[(pair * 2 + 1) * inner + i]);
        if (s.product_rounding == ProductRounding::bf16) h[i] = decode_bf16(encode_bf16(h[i]));
      }
      reference::quantize_row(reference::quant_rule(s, p.quant), p.quant.kind, h, {},
                              &out.at("act_codes").as<std::uint8_t>()[pair * inner],
                              &out.at("act_scale").as<float>()[pair * groups]);
    }
  });
}

Case case_of(QuantScheme quant = {}) {
  Case c;
  c.problem.shape = {.tokens = 16, .hidden = 256, .intermediate = 256, .experts = 8, .top_k = 2};
  c.problem.quant = quant;
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  return c;
}

Inference infer(LayerFunction compute, const Case& c) {
  RoundingExecutor executor(std::move(compute));
  return infer_semantics(executor, c, 1);
}

/// Any finite bf16 gate, mostly of the size that gates have.
float some_gate(std::uint32_t n) {
  const std::uint32_t bits = n * 2654435761u;
  if (n % 4 == 0) return decode_bf16(std::uint16_t((bits >> 16) % 0x7F80 | (bits & 0x8000)));
  return decode_bf16(encode_bf16((float(bits >> 8) * 0x1p-24f - 0.5f) * (n % 2 ? 8 : 60)));
}

// No silu with a documented error leaves the range of its form, whatever is rounded behind it. Would catch a
// range that is too narrow, which fails right kernels.
TEST(ExpForm, EverySiluStaysInItsRange) {
  MoeShape shape = case_of().problem.shape;
  for (const Silu& silu : kSilus)
    for (int roundings = 0; roundings < 4; ++roundings) {
      Semantics s;
      s.exp_form = silu.form;
      s.gate_rounding = GateRounding(roundings % 2);
      s.product_rounding = ProductRounding(roundings / 2);
      for (std::uint32_t n = 0; n < 100'000; ++n) {
        const float g = some_gate(n), u = some_gate(n + 7'000'000);
        float gate = silu.compute(g);
        if (s.gate_rounding == GateRounding::bf16) gate = decode_bf16(encode_bf16(gate));
        float product = gate * u;
        if (s.product_rounding == ProductRounding::bf16) product = decode_bf16(encode_bf16(product));
        const reference::FloatRange range = reference::activation_range(shape, s, g, u);
        ASSERT_TRUE(product >= range.low && product <= range.high)
            << silu.what << " g " << g << " u " << u << ": " << product << " not in " << range.low << " .. "
            << range.high;
      }
    }
}

// Would catch a right kernel that fails where a clamp or an infinite gate leaves no doubt, and where
// __fdividef gives a zero whose sign nobody documents.
TEST(ExpForm, ClampedInfiniteAndFarGatesHaveTheirValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  MoeShape shape = case_of().problem.shape;
  Semantics s;
  s.exp_form = ExpForm::fast;
  EXPECT_EQ(reference::activation_range(shape, s, kInfinity, -2).low, -kInfinity);
  EXPECT_EQ(reference::activation_range(shape, s, kInfinity, -2).high, -kInfinity);
  EXPECT_TRUE(std::isnan(reference::activation_range(shape, s, -kInfinity, 2).low));
  EXPECT_TRUE(std::isnan(reference::activation_range(shape, s, 1, NAN).high));
  const reference::FloatRange far = reference::activation_range(shape, s, -88, 2);
  EXPECT_LT(far.low, 0);
  EXPECT_GT(far.low, -1e-30f);
  EXPECT_EQ(float_bits(far.high), 0u);
  shape.activation = Activation::silu_mul_clamped;
  shape.limit = 7, shape.alpha = 1.5, shape.beta = 1;
  const reference::FloatRange clamped = reference::activation_range(shape, s, kInfinity, -kInfinity),
                              finite = reference::activation_range(shape, s, 9, -9);
  EXPECT_EQ(clamped.low, finite.low);
  EXPECT_EQ(clamped.high, finite.high);
  EXPECT_NEAR(clamped.low, -6 * 7 / (1 + std::exp(-10.5)), 1e-4);
}

// And the range is narrow: with bf16 roundings nearly every element has one value. Would catch a bound that
// lets a wrong activation pass.
TEST(ExpForm, NearlyEveryRoundedActivationHasOneValue) {
  const MoeShape shape = case_of().problem.shape;
  Semantics s = semantics_preset("vllm-triton", {});
  s.exp_form = ExpForm::fast;
  int open = 0, wide = 0;
  constexpr int kCount = 100'000;
  for (std::uint32_t n = 0; n < kCount; ++n) {
    const float g = some_gate(4 * n + 1), u = some_gate(4 * n + 7'000'003);  // of usual size
    const reference::FloatRange rounded = reference::activation_range(shape, s, g, u);
    open += rounded.low != rounded.high;
    Semantics plain = s;
    plain.gate_rounding = GateRounding::none, plain.product_rounding = ProductRounding::none;
    const reference::FloatRange fp32 = reference::activation_range(shape, plain, g, u);
    wide += std::abs(fp32.high - fp32.low) > 0x1p-18f * std::abs(fp32.high) && std::abs(g) < 8;
  }
  EXPECT_LT(open, kCount / 250);
  EXPECT_EQ(wide, 0);
  RecordProperty("open", open);
}

// The other fields are named, exp is what it is. Would catch an inference that calls these kernels unknown,
// or takes their exp for the recipe.
TEST(ExpForm, KernelsAreRecognisedButForTheirExp) {
  for (const char* preset : {"vllm-triton", "moeproof", "sglang-triton"})
    for (const Silu& silu : kSilus) {
      const bool channel = preset == std::string("sglang-triton");
      const QuantScheme quant{channel ? QuantKind::token_channel : QuantKind::block128};
      const Inference i = infer(with_silu(semantics_preset(preset, quant), silu.compute), case_of(quant));
      ASSERT_TRUE(i.known()) << preset << " " << silu.what << " " << i.summary();
      EXPECT_EQ(i.presets.front(), preset) << silu.what << " " << i.summary();
      bool held = false;
      for (const Semantics& s : i.left) held = held || s.exp_form == silu.form;
      EXPECT_TRUE(held) << preset << " " << silu.what << " " << i.summary();
    }
}

/// `full`: what probes of the case's own size said.
Verdict judged(const LayerFunction& kernel, const Case& c, const Inference& found,
               const Inference* full = nullptr) {
  Case asked = c;
  const Routing routing = routing_of(asked.problem);
  const TensorSet inputs = make_inputs(asked.problem, asked.choice, routing, 1);
  TensorSet all = inputs;
  if (!inputs.has("topk_ids")) {
    const TensorSet routed = reference::routed(asked.problem, inputs);
    for (const Tensor& t : routed.all()) all.add(t);
  }
  TensorSet outputs = kernel(asked.problem, all);
  if (!inputs.has("topk_ids"))
    for (const char* name : {"topk_ids", "topk_weights"}) outputs.add(all.at(name));
  return judge_inferred(asked, inputs, outputs, {}, found, full).verdict;
}

// A kernel with another exp is judged to the bit, and the verdict counts what stayed open. A gate that is off
// by 16 ulp, a product that is cut, or a code one step off fails. Would catch a stage that judges nothing.
TEST(ExpForm, JudgedToTheBitButForWhatExpLeavesOpen) {
  int told = 0;
  for (const char* preset : {"vllm-triton", "moeproof"}) {
    const Semantics s = semantics_preset(preset, {});
    for (const Silu& silu : kSilus) {
      const LayerFunction kernel = with_silu(s, silu.compute);
      const Inference found = infer(kernel, case_of());
      Case c = case_of();
      c.problem.shape.tokens = 64;
      const Verdict v = judged(kernel, c, found);
      EXPECT_EQ(v.correctness, Correctness::passed) << preset << " " << silu.what << " " << v.reason;
      EXPECT_EQ(v.judged_by, "bits");
      EXPECT_LT(v.open, v.checked / 100);
      EXPECT_NE(v.reason.find("semantics inferred"), std::string::npos) << v.reason;
    }
    const LayerFunction right = with_silu(s, kSilus[0].compute);
    const Inference found = infer(right, case_of());
    const LayerFunction rough = with_silu(s, kSilus[1].compute);
    Inference wider = infer(rough, case_of());
    wider.left.insert(wider.left.begin(), s);  // as if the probes had not told its exp from the recipe
    Inference recipe = wider;
    recipe.left = {s};
    Case many = case_of();
    many.problem.shape.tokens = 64;
    const bool apart =
        judged(rough, many, recipe).reason.find("; here exp within_2_ulp") != std::string::npos;
    if (apart) {  // the case tells them apart
      ++told;
      const Verdict named = judged(rough, many, wider);
      EXPECT_NE(named.reason.find("; here exp within_2_ulp"), std::string::npos) << named.reason;
    }
    const LayerFunction off = with_silu(s, [](float g) { return step(kSilus[0].compute(g), 64); });
    const LayerFunction flipped = [=](const Problem& p, const TensorSet& in) {
      TensorSet out = right(p, in);
      out.at("act_codes").as<std::uint8_t>()[1000] ^= 1;
      return out;
    };
    Verdict v = judged(flipped, case_of(), found, &found);
    EXPECT_EQ(v.correctness, Correctness::failed) << preset << " " << v.reason;
    v = judged(off, case_of(), found, &found);
    EXPECT_EQ(v.correctness, Correctness::failed) << preset << " " << v.reason;
  }
  EXPECT_GE(told, 1);
}

// 64 ulp are no exp's error: unknown, in the activation alone.
TEST(ExpForm, ALargerErrorIsUnknown) {
  const Inference i = infer(
      with_silu(semantics_preset("moeproof", {}), [](float g) { return step(kSilus[0].compute(g), 64); }),
      case_of());
  EXPECT_FALSE(i.known()) << i.summary();
  for (const Contradiction& c : i.contradictions) EXPECT_EQ(c.stage, "act_quant");
}

// A kernel that shows only `out` is not judged to the bit by a Semantics whose exp is open, nor named by one.
TEST(ExpForm, WithoutItsStagesSuchAKernelIsUnknown) {
  const Inference i =
      infer(only_out(with_silu(semantics_preset("moeproof", {}), kSilus[4].compute)), case_of());
  EXPECT_FALSE(i.known()) << i.summary();
}

}  // namespace
}  // namespace moe::harness
