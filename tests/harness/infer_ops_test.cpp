// Is a kernel of one op by itself asked, named, and then judged to the bit? And is what no Semantics does
// unknown there, too?
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/files/hardware_file.hpp"
#include "harness/executors.hpp"
#include "harness/infer/finder.hpp"
#include "harness/run_problem.hpp"
#include "tests/harness/strange_sums.hpp"

namespace moe::harness {
namespace {

Case case_of(Op op, QuantScheme quant = {}, Contract contract = Contract::masked, int gemm = 1) {
  Case c;
  c.problem.op = op;
  c.problem.contract = contract;
  c.problem.gemm = gemm;
  c.problem.shape = {.tokens = 16, .hidden = 256, .intermediate = 256, .experts = 8, .top_k = 2};
  c.problem.quant = quant;
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  return c;
}

Inference infer(LayerFunction compute, const Case& c) {
  RoundingExecutor executor(std::move(compute));
  return infer_semantics(executor, c, 1);
}

std::string told(const Inference& i) {
  std::string text = to_line(i.trial) + ": " + i.summary();
  for (const FieldFinding& f : i.fields) {
    if (f.state == FieldState::irrelevant) continue;
    text += "\n  " + f.field + " " + std::string(name(f.state));
    for (const std::string& v : f.values) text += " " + v;
  }
  return text;
}

/// The preset is named, others only where they are the same under this op, and nothing is left open.
void expect_only(const Inference& i, std::string_view preset, const Problem& p) {
  ASSERT_TRUE(i.known()) << preset << " " << told(i);
  EXPECT_EQ(left_but_for_exp(i.left), 1u) << preset << " " << told(i);
  EXPECT_TRUE(std::find(i.presets.begin(), i.presets.end(), preset) != i.presets.end())
      << preset << " " << told(i);
  const auto plain = [&](std::string_view name) {
    Semantics s = canonical(i.layer, semantics_preset(name, p.quant));
    s.preset.clear();
    return s;
  };
  for (const std::string& other : i.presets) EXPECT_EQ(plain(other), plain(preset)) << other;
}

struct Asked {
  Contract contract;
  int gemm;
};
class EveryContract : public testing::TestWithParam<Asked> {};

// Every preset under every scheme. Would catch a probe that is written into the wrong rows or scales of a
// contract (nothing would then be told apart), and two values of a field that no probe tells apart.
TEST_P(EveryContract, PresetsAreNamed) {
  const QuantScheme schemes[] = {
      {QuantKind::block128},       {QuantKind::block128, ScaleFormat::f32, ScaleLayout::mn_major},
      {QuantKind::token_channel},  {QuantKind::tensor_static},
      {QuantKind::tensor_dynamic}, {QuantKind::block128, ScaleFormat::ue8m0},
  };
  int turn = int(GetParam().contract) + GetParam().gemm;  // schemes and presets meet over the contracts
  for (const QuantScheme& quant : schemes) {
    const Case c = case_of(Op::grouped_gemm, quant, GetParam().contract, GetParam().gemm);
    for (std::size_t i = 0; i < semantics_presets().size(); ++i) {
      if ((int(i) + turn) % 3 != 0) continue;
      const std::string preset(semantics_presets()[i]);
      expect_only(infer(preset_op(preset), c), preset, c.problem);
    }
    ++turn;
  }
}
INSTANTIATE_TEST_SUITE_P(Infer, EveryContract,
                         testing::Values(Asked{Contract::routed, 1}, Asked{Contract::routed, 2},
                                         Asked{Contract::contiguous, 1}, Asked{Contract::masked, 2},
                                         Asked{Contract::offsets, 1}),
                         [](const auto& info) {
                           return std::string(name(info.param.contract)) + std::to_string(info.param.gemm);
                         });

// The small ops see the fields of their own stage and no other.
TEST(InferOps, QuantizersActivationsAndCombinesAreNamed) {
  for (const Op op : {Op::quantize, Op::act_quant, Op::combine})
    for (const QuantKind kind :
         {QuantKind::block128, QuantKind::token_channel, QuantKind::tensor_static, QuantKind::tensor_dynamic})
      for (const char* preset : {"moeproof", "vllm-triton", "sglang-triton", "deepgemm"}) {
        const Case c = case_of(op, {kind});
        expect_only(infer(preset_op(preset), c), preset, c.problem);
      }
}

// Accumulation in fp32, blocks from the end, an output that is cut: unknown under every contract, and no
// preset is named. Would catch an answer by nearness.
TEST(InferOps, StrangeSumsAreUnknown) {
  for (const Contract contract :
       {Contract::routed, Contract::contiguous, Contract::masked, Contract::offsets})
    for (const auto& kernel : {sums_by(fp32_chain), sums_by(last_block_first), sums_by(fp32_chain, true)}) {
      const Case c = case_of(Op::grouped_gemm, {}, contract);
      const Inference i = infer(kernel, c);
      EXPECT_FALSE(i.known()) << told(i);
      EXPECT_TRUE(i.presets.empty());
      ASSERT_FALSE(i.contradictions.empty());
      EXPECT_EQ(i.contradictions[0].stage, "grouped_gemm");
      for (const FieldFinding& f : i.fields)
        if (f.field == "accumulator") {
          EXPECT_EQ(f.state, FieldState::unknown);
        }
    }
}

// Results cut to bf16, not rounded, are inside the bounds of every wide sum: found where the sum is exact,
// and named. What a right kernel of unknown sums gives there is right. Would catch a truncating store that
// passes.
TEST(InferOps, ResultsThatAreCutAreFound) {
  const Case c = case_of(Op::grouped_gemm, {}, Contract::offsets);
  const Inference cut = infer(sums_by(fp32_chain, true), c);
  ASSERT_TRUE(cut.failure) << told(cut);
  EXPECT_EQ(cut.failure->probe, "rounding") << cut.failure->verdict.reason;
  EXPECT_EQ(cut.failure->verdict.fault_class, "results that are cut to bf16, not rounded");
  for (const auto& right : {sums_by(fp32_chain), sums_by(last_block_first)})
    EXPECT_FALSE(infer(right, c).failure);
}

// A kernel that takes only its own sizes is asked with those.
TEST(InferOps, OwnSizesWhereOthersAreRefused) {
  RoundingExecutor executor(preset_op("sglang-triton"));
  const Case c = case_of(Op::grouped_gemm, {}, Contract::offsets);
  executor.refused_hidden = small_case(c).problem.shape.hidden;
  expect_only(infer_semantics(executor, c, 1), "sglang-triton", c.problem);
}

#if MOE_HAVE_EMULATOR
// The built-in kernels by themselves on the emulated SM. Would catch probes that only the reference's own
// code answers.
TEST(InferOps, OurGroupedKernelsAreRecognised) {
  const auto chosen = choose_executor({"emulated", 2, 7, 3});
  ASSERT_NE(chosen.executor, nullptr) << chosen.why_not;
  const auto ask = [&](Contract contract, int gemm, QuantScheme quant, Layout layout, const char* tile) {
    Case c = case_of(Op::grouped_gemm, quant, contract, gemm);
    c.choice.layout = layout;
    c.choice.tile = c.choice.tile_down = parse_tile(tile);
    const Inference i = infer_semantics(*chosen.executor, c, 2);
    expect_only(i, layout == Layout::normal_mma ? "moeproof-hmma" : "moeproof", c.problem);
  };
  ask(Contract::routed, 1, {}, Layout::swap_ab, "16x128x128");
  ask(Contract::contiguous, 2, {}, Layout::normal_wgmma, "64x128x128");
  ask(Contract::masked, 1, {}, Layout::normal_mma, "16x128x128");
  ask(Contract::offsets, 1, {QuantKind::token_channel}, Layout::swap_ab, "8x128x128");
}
#endif

// check: an undeclared grouped GEMM is asked once and judged to the bit; one wrong bit, far inside every
// bound, fails it; one that is unknown is judged by bounds, and the reason says so.
TEST(InferOps, AnUndeclaredGroupedGemmIsJudgedToTheBit) {
  std::uint64_t flipped_seed = 0;
  LayerFunction compute = [&](const Problem& p, const TensorSet& inputs) {
    TensorSet out = preset_op("cutlass")(p, inputs);
    if (p.seed == flipped_seed) out.at("c").as<std::uint16_t>()[5] ^= 1;
    return out;
  };
  RoundingExecutor executor(compute);
  SemanticsFinder finder(executor, 1);
  const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.finder = &finder;
  Case c = case_of(Op::grouped_gemm, {}, Contract::offsets);
  Verdict v = *run_problem(c.problem, {c.choice}, plan)[0].verdict;
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.judged_by, "bits");
  EXPECT_EQ(v.reason, "semantics inferred: vllm-triton-wgmma or cutlass");
  flipped_seed = c.problem.seed = 3;
  v = *run_problem(c.problem, {c.choice}, plan)[0].verdict;
  EXPECT_EQ(v.correctness, Correctness::failed);
  EXPECT_EQ(v.wrong, 1);
  // the probes once, a case a run, the first again behind the probes; the wrong one asked again at its size
  EXPECT_EQ(executor.opened, 6);

  RoundingExecutor strange(sums_by(fp32_chain));
  SemanticsFinder asks(strange, 1);
  plan.executor = &strange;
  plan.finder = &asks;
  v = *run_problem(c.problem, {c.choice}, plan)[0].verdict;
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.judged_by, "probable bound");
  EXPECT_NE(v.reason.find("its rounding in grouped_gemm is none of the known ones (probe chains)"),
            std::string::npos)
      << v.reason;
}

}  // namespace
}  // namespace moe::harness
