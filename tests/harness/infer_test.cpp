// Does inference name what a kernel does, and refuse to name what none does?
#include "harness/infer/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/executors.hpp"
#include "harness/infer/finder.hpp"
#include "harness/run_problem.hpp"
#include "reference/exact/exact_stages.hpp"
#include "tests/harness/rounding_executor.hpp"

namespace moe::harness {
namespace {

constexpr QuantKind kKinds[] = {QuantKind::tensor_static, QuantKind::tensor_dynamic, QuantKind::token_channel,
                                QuantKind::block128};

Case case_of(QuantScheme quant, Layout layout = Layout::swap_ab) {
  Case c;
  c.problem.shape = {.tokens = 16, .hidden = 256, .intermediate = 256, .experts = 8, .top_k = 2};
  c.problem.quant = quant;
  c.choice.layout = layout;
  return c;
}

Inference infer(LayerFunction compute, const Case& c) {
  RoundingExecutor executor(std::move(compute));
  return infer_semantics(executor, c, 1);
}

bool names(const Inference& i, std::string_view preset) {
  return std::find(i.presets.begin(), i.presets.end(), preset) != i.presets.end();
}

std::string fields_text(const Inference& i) {
  std::string text = i.summary();
  for (const FieldFinding& f : i.fields) {
    text += "\n  " + f.field + " " + std::string(name(f.state));
    for (const std::string& v : f.values) text += " " + v;
  }
  return text;
}

/// Only presets that are the same kernel under this scheme may be named together.
void expect_named(const Inference& i, std::string_view preset, const Problem& p) {
  EXPECT_TRUE(i.known()) << preset << " " << name(p.quant.kind) << "\n" << fields_text(i);
  EXPECT_TRUE(names(i, preset)) << preset << " " << name(p.quant.kind) << "\n" << fields_text(i);
  const auto packed = [&](std::string_view other) {
    Semantics s = canonical(i.layer, semantics_preset(other, p.quant));
    s.preset.clear();
    return s;
  };
  for (const std::string& other : i.presets)
    EXPECT_EQ(packed(other), packed(preset)) << other << " " << preset;
}

// Every preset, from all stages. Would catch a probe that does not tell two values of a field apart, and an
// elimination that drops the right one.
TEST(Infer, EveryPresetIsNamedFromItsStages) {
  for (const std::string_view preset : semantics_presets()) {
    const Case c = case_of({});
    const Inference i = infer(follows(semantics_preset(preset, c.problem.quant)), c);
    expect_named(i, preset, c.problem);
    EXPECT_EQ(left_but_for_exp(i.left), 1u) << fields_text(i);
  }
}

class EveryScheme : public testing::TestWithParam<QuantKind> {};

// The other schemes, and the layer's output alone: would catch a probe whose stages hide what it asks.
TEST_P(EveryScheme, PresetsAreNamed) {
  for (const std::string_view preset : {"moeproof-hmma", "vllm-triton-swap", "sglang-triton"}) {
    const Case c = case_of({.kind = GetParam()});
    const LayerFunction kernel = follows(semantics_preset(preset, c.problem.quant));
    const Inference i = infer(kernel, c);
    expect_named(i, preset, c.problem);
    EXPECT_EQ(left_but_for_exp(i.left), 1u) << fields_text(i);
    if (preset != std::string("sglang-triton")) continue;  // the slower of the two questions, once a scheme
    expect_named(infer(only_out(kernel), c), preset, c.problem);
  }
}
INSTANTIATE_TEST_SUITE_P(Infer, EveryScheme, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(name(info.param)); });

// Powers of two as scales: no order of scale products, no way of dividing can be seen, and none is claimed.
TEST(Infer, PowerOfTwoScalesLeaveOrdersIrrelevant) {
  const Case c = case_of({.scale_format = ScaleFormat::ue8m0});
  const Inference i = infer(follows(semantics_preset("deepgemm", c.problem.quant)), c);
  EXPECT_TRUE(i.known()) << fields_text(i);
  EXPECT_TRUE(names(i, "deepgemm"));
  for (const FieldFinding& f : i.fields) {
    if (f.field == "scale_order" || f.field == "quant_formula" || f.field == "scale_formula") {
      EXPECT_EQ(f.state, FieldState::irrelevant);
    }
    if (f.field == "amax_floor") {
      EXPECT_EQ(f.values, std::vector<std::string>{"1e-04"});
    }
  }
}

// A Semantics that is no preset is found field by field.
TEST(Infer, AMixtureIsFoundAndNamesNoPreset) {
  Semantics s = semantics_preset("vllm-triton", {});
  s.promote_k = 64;
  s.scale_order = ScaleOrder::product_mul_add;
  const Inference i = infer(follows(s), case_of({}));
  EXPECT_TRUE(i.known()) << fields_text(i);
  EXPECT_TRUE(i.presets.empty());
  ASSERT_EQ(left_but_for_exp(i.left), 1u);
  s.preset = "inferred";
  s.combine_fma = false;
  EXPECT_EQ(i.left[0], s) << i.left[0];
}

// In one-hot probes no GEMM field changes a byte, whatever the others are: the elimination rests on it.
TEST(Infer, OneHotProbesSeeNoGemmField) {
  for (const QuantKind kind : {QuantKind::token_channel, QuantKind::block128}) {
    const Case layer = small_case(case_of({.kind = kind}));
    for (const Probe& probe : make_probes(layer)) {
      if (!probe.one_hot) continue;
      std::vector<TensorSet> outputs;
      for (int i = 0; i < 5; ++i) {
        Semantics s = semantics_preset("vllm-triton", layer.problem.quant);
        s.accumulator = Accumulator(i % 2);
        s.promote_k = i % 3 == 0 ? 32 : 128;
        s.scale_order = ScaleOrder(i);
        outputs.push_back(reference::exact_layer(layer.problem, s, probe.inputs, 1));
      }
      for (const Tensor& t : outputs[0].all())
        for (const TensorSet& other : outputs)
          EXPECT_EQ(std::memcmp(t.data(), other.at(t.name()).data(), t.bytes()), 0) << probe.name << t.name();
    }
  }
}

struct Strange {
  const char* what;
  LayerFunction kernel;
  LayerStage stage;  // that no candidate explains
};

/// Both operands of element (pair, n) of GEMM 1 under block scales, block by block.
template <class Block>
void redo_gemm1(const Problem& p, const TensorSet& in, TensorSet& out, Block block) {
  const std::span<const std::uint8_t> x = out.at("x_codes").as<std::uint8_t>(),
                                      w = in.at("w13").as<std::uint8_t>();
  const std::span<const float> x_scale = out.at("x_scale").as<float>(),
                               w_scale = in.at("w13_scale").as<float>();
  const auto ids = in.at("topk_ids").as<std::int32_t>();
  const auto gemm1 = out.at("gemm1").as<std::uint16_t>();
  const std::int64_t k = p.shape.hidden, n = p.shape.up_rows(), blocks = k / 128;
  for (std::int64_t pair = 0; pair < p.shape.pairs(); ++pair) {
    const std::int64_t token = pair / p.shape.top_k, e = ids[std::size_t(pair)];
    for (std::int64_t c = 0; c < n; ++c) {
      float acc = 0;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const float part =
            block(&x[std::size_t(token * k + b * 128)], &w[std::size_t((e * n + c) * k + b * 128)]);
        const float a = x_scale[std::size_t(token * blocks + b)];
        acc = __builtin_fmaf(a * w_scale[std::size_t((e * (n / 128) + c / 128) * blocks + b)], part, acc);
      }
      gemm1[std::size_t(pair * n + c)] = encode_bf16(acc);
    }
  }
}

/// `x` with 11 significand bits, as f16 has, to nearest.
float eleven_bits(float x) {
  const std::uint32_t bits = float_bits(x);
  return bits_float((bits + 0x0FFFu + ((bits >> 13) & 1u)) & ~0x1FFFu);
}

std::vector<Strange> strange_kernels() {
  const Semantics s = semantics_preset("moeproof", {});
  std::vector<Strange> all;
  Semantics floor = s;
  floor.amax_floor = 1e-6;
  all.push_back({"floor", follows(floor), LayerStage::quantize});
  const auto f16_sums = [](const Problem& p, const TensorSet& in, TensorSet& out) {
    redo_gemm1(p, in, out, [](const std::uint8_t* x, const std::uint8_t* w) {
      float part = 0;
      for (int i = 0; i < 128; ++i) part = eleven_bits(part + decode_e4m3(x[i]) * decode_e4m3(w[i]));
      return part;
    });
  };
  all.push_back({"f16 accumulator", changed(s, LayerStage::gemm1, f16_sums), LayerStage::gemm1});
  const auto f32_sums = [](const Problem& p, const TensorSet& in, TensorSet& out) {
    redo_gemm1(p, in, out, [](const std::uint8_t* x, const std::uint8_t* w) {
      float part = 0;
      for (int i = 0; i < 128; ++i) part = __builtin_fmaf(decode_e4m3(x[i]), decode_e4m3(w[i]), part);
      return part;
    });
  };
  all.push_back({"fp32 accumulator", changed(s, LayerStage::gemm1, f32_sums), LayerStage::gemm1});
  const auto cut_product = [s](const Problem& p, const TensorSet&, TensorSet& out) {
    const auto inner = std::size_t(p.shape.intermediate), groups = inner / 128;
    const auto gemm1 = out.at("gemm1").as<std::uint16_t>();
    for (std::size_t pair = 0; pair < std::size_t(p.shape.pairs()); ++pair) {
      std::vector<float> h(inner);
      reference::exact_activation_row(p.shape, s, gemm1.subspan(pair * 2 * inner, 2 * inner), h);
      for (float& x : h) x = bits_float(float_bits(x) & 0xFFFF0000u);
      reference::quantize_row(reference::quant_rule(s, p.quant), p.quant.kind, h, {},
                              &out.at("act_codes").as<std::uint8_t>()[pair * inner],
                              &out.at("act_scale").as<float>()[pair * groups]);
    }
  };
  all.push_back(
      {"product cut to bf16", changed(s, LayerStage::act_quant, cut_product), LayerStage::act_quant});
  all.push_back({"last slot first", changed(s, LayerStage::combine, last_slot_first), LayerStage::combine});
  return all;
}

// What no Semantics does is unknown, in the stage that does it and in no other; what the other stages do is
// still told. Would catch an answer by majority, by nearness, or by what was left before the contradiction.
TEST(Infer, StrangeArithmeticIsUnknownInItsStage) {
  for (const Strange& strange : strange_kernels()) {
    const Inference i = infer(strange.kernel, case_of({}));
    EXPECT_FALSE(i.known()) << strange.what << " " << fields_text(i);
    EXPECT_TRUE(i.presets.empty()) << strange.what;
    for (const Contradiction& c : i.contradictions) {
      // one Semantics has one quantiser and one GEMM: what is strange in the first may leave the second
      // without a candidate
      const bool quantiser = strange.stage == LayerStage::quantize && c.stage == "act_quant";
      const bool gemm = strange.stage == LayerStage::gemm1 && c.stage == "gemm2";
      EXPECT_TRUE(c.stage == name(strange.stage) || quantiser || gemm)
          << strange.what << " " << c.stage << " " << c.text;
    }
    EXPECT_NE(i.summary().find(i.failure ? "wrong in probe" : "unknown"), std::string::npos) << i.summary();
  }
}

TEST(Infer, StrangeArithmeticIsUnknownFromTheOutputAlone) {
  for (const Strange& strange : strange_kernels()) {
    const Inference i = infer(only_out(strange.kernel), case_of({}));
    EXPECT_FALSE(i.known()) << strange.what << " " << fields_text(i);
    EXPECT_TRUE(i.presets.empty()) << strange.what;
  }
}

// A kernel that takes only its own sizes is asked with those; one too small for the probes is not judged by
// them.
TEST(Infer, OwnSizesWhereOthersAreRefused) {
  RoundingExecutor executor(follows(semantics_preset("cutlass", {})));
  Case c = case_of({});
  executor.refused_hidden = small_case(c).problem.shape.hidden;
  c.problem.shape.hidden = 512;
  expect_named(infer_semantics(executor, c, 1), "cutlass", c.problem);
  c.problem.shape.hidden = 256;
  EXPECT_NE(infer_semantics(executor, c, 1).refusal.find("hidden 256"), std::string::npos);
}

#if MOE_HAVE_EMULATOR
// The built-in kernels on the emulated SM are recognised in every layout: would catch probes that only the
// reference's own code answers.
TEST(Infer, OurKernelsAreRecognised) {
  const auto chosen = choose_executor({"emulated", 2, 7, 3});
  ASSERT_NE(chosen.executor, nullptr) << chosen.why_not;
  const auto expect = [&](QuantScheme quant, Layout layout) {
    const Case c = case_of(quant, layout);
    expect_named(infer_semantics(*chosen.executor, c, 2),
                 layout == Layout::normal_mma ? "moeproof-hmma" : "moeproof", c.problem);
  };
  expect({}, Layout::normal_mma);
  expect({}, Layout::normal_wgmma);
  expect({}, Layout::swap_ab);
  expect({.kind = QuantKind::token_channel}, Layout::swap_ab);
}
#endif

// check: a kernel that declares nothing is asked once, then judged to the bit; one wrong bit fails it.
TEST(Infer, AnUndeclaredKernelIsJudgedToTheBit) {
  const Semantics s = semantics_preset("vllm-triton", {});
  std::int64_t flipped_tokens = -1;
  RoundingExecutor executor([&](const Problem& p, const TensorSet& inputs) {
    TensorSet out = reference::exact_layer(p, s, inputs, 1);
    if (p.shape.tokens == flipped_tokens) out.at("out").as<std::uint16_t>()[77] ^= 1;
    return out;
  });
  SemanticsFinder finder(executor, 1);
  RunPlan plan;
  const Hardware hardware = load_hardware("h200");
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.finder = &finder;
  Case c = case_of({});
  c.choice.tile = parse_tile("16x128x128");
  Verdict v = *run_problem(c.problem, {c.choice}, plan)[0].verdict;
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.reason, "semantics inferred: vllm-triton");
  EXPECT_EQ(v.judged_by, "bits");
  EXPECT_EQ(executor.opened, 3);  // the case, the probes, the case again
  c.problem.seed = 2;
  flipped_tokens = c.problem.shape.tokens;
  v = *run_problem(c.problem, {c.choice}, plan)[0].verdict;
  EXPECT_EQ(v.correctness, Correctness::failed);
  EXPECT_NE(v.reason.find("(semantics inferred: vllm-triton)"), std::string::npos) << v.reason;
  EXPECT_EQ(executor.opened, 4);  // not asked again
}

// Catches: GEMM 2 judged to the bit by a sum that it fits by chance, while GEMM 1, the same kernel, fits
// none.
TEST(Inference, BothGemmsAreKnownOrNeither) {
  Inference found;
  found.layer = case_of({}).problem;
  for (const auto stage : {LayerStage::gemm1, LayerStage::act_quant, LayerStage::gemm2, LayerStage::combine})
    found.stages.emplace_back(name(stage));
  found.left = {semantics_preset("vllm-triton", {})};
  EXPECT_TRUE(found.knows(LayerStage::gemm1) && found.knows(LayerStage::gemm2));
  found.contradictions = {{"chains", std::string(name(LayerStage::gemm1)), true, "differs"}};
  EXPECT_FALSE(found.knows(LayerStage::gemm1));
  EXPECT_FALSE(found.knows(LayerStage::gemm2));
  EXPECT_TRUE(found.knows(LayerStage::act_quant) && found.knows(LayerStage::combine));
}

}  // namespace
}  // namespace moe::harness
