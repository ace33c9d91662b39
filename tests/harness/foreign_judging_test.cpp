// Is a kernel that declares nothing judged fairly where it rounds otherwise at another size, where one of its
// stages follows nothing known, and where it is wrong in a probe alone?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/child_process.hpp"
#include "harness/compare_output.hpp"
#include "harness/infer/finder.hpp"
#include "harness/reporters.hpp"
#include "harness/run_problem.hpp"
#include "tests/harness/rounding_executor.hpp"
#include "tests/harness/strange_sums.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kTokens = 40;  // more than a probe has

Case layer_case(std::int64_t hidden = 256, std::uint64_t seed = 1) {
  Case c;
  c.problem.shape = {.tokens = kTokens, .hidden = hidden, .intermediate = 256, .experts = 4, .top_k = 2};
  c.problem.seed = seed;
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  return c;
}

/// One Semantics for few tokens, another for more.
LayerFunction by_size(const Semantics& small, const Semantics& large) {
  return [=](const Problem& p, const TensorSet& in) {
    return reference::exact_layer(p, p.shape.tokens < 30 ? small : large, in, 1);
  };
}

class Kernel {
 public:
  explicit Kernel(LayerFunction compute) : executor_(std::move(compute)), finder_(executor_, 2) {
    plan_.executor = &executor_;
    plan_.hardware = &hardware_;
    plan_.finder = &finder_;
    plan_.threads = 2;
    plan_.program = "moeproof";
  }
  Verdict check(const Case& c) { return *run_problem(c.problem, {c.choice}, plan_)[0].verdict; }

 private:
  Hardware hardware_ = load_hardware("h200");
  RoundingExecutor executor_;
  SemanticsFinder finder_;
  RunPlan plan_;
};

bool says(const Verdict& v, const std::string& words) { return v.reason.find(words) != std::string::npos; }

// Catches: a right kernel failed by a last bit, because what it did in probes of six tokens is demanded of a
// case of forty: another quantiser, another order of scales, another combine, each to the bit known.
TEST(ForeignJudging, AnotherKnownRoundingAtAnotherSizePasses) {
  const Semantics small = semantics_preset("moeproof", {});
  Semantics quantiser = small, order = small, sum = small;
  quantiser.quant_formula = QuantFormula::divide;
  order.scale_order = ScaleOrder::weight_act_fma;
  order.accumulator = Accumulator::hmma;
  sum.combine_fma = false;
  const struct {
    const char* word;
    const Semantics& large;
  } kernels[] = {{"quantize here by quant_formula divide where probes gave multiply_inverse", quantiser},
                 {"accumulator hmma where probes gave wgmma", order},
                 {"combine_order mul_add where probes gave fma", sum}};
  for (const auto& kernel : kernels) {
    Kernel right(by_size(small, kernel.large));
    const Verdict v = right.check(layer_case());
    EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
    EXPECT_EQ(v.judged_by, "bits");
    EXPECT_TRUE(says(v, kernel.word)) << v.reason;
    Kernel shows_out(only_out(by_size(small, kernel.large)));
    const Verdict alone = shows_out.check(layer_case(384));
    EXPECT_NE(alone.correctness, Correctness::failed) << alone.reason;
  }
}

/// A kernel behind the router: the case's scores become ids first.
LayerFunction behind_router(LayerFunction kernel) {
  return [=](const Problem& p, const TensorSet& in) {
    if (in.has("topk_ids")) return kernel(p, in);
    TensorSet all = in;
    const TensorSet routed = reference::routed(p, in);
    for (const Tensor& t : routed.all()) all.add(t);
    TensorSet out = kernel(p, all);
    for (const char* name : {"topk_ids", "topk_weights"}) out.add(routed.at(name));
    return out;
  };
}

/// GEMM 1 of problems with so many tokens rounds as one known kernel in half of its rows and as another in
/// the others: right, and nothing known as a whole.
LayerFunction with_mixed_gemm(const Semantics& s, std::int64_t from_tokens) {
  const auto mix = [](const Problem& p, const TensorSet& in, TensorSet& out) {
    const Semantics other = semantics_preset("vllm-triton", p.quant);
    std::vector<std::int64_t> pairs;
    for (std::int64_t i = p.shape.pairs() / 2; i < p.shape.pairs(); ++i) pairs.push_back(i);
    const reference::StageTruth due = reference::gemm_truth(p, 1, {in, out}, pairs, {&other, true, false, 1});
    const std::size_t bytes = due.at("gemm1").bits.bytes();
    Tensor& gemm1 = out.at("gemm1");
    std::memcpy(gemm1.data() + gemm1.bytes() - bytes, due.at("gemm1").bits.data(), bytes);
  };
  const LayerFunction mixed = behind_router(changed(s, LayerStage::gemm1, mix));
  return [=](const Problem& p, const TensorSet& in) {
    return p.shape.tokens < from_tokens ? reference::exact_layer(p, s, in, 1) : mixed(p, in);
  };
}

/// combine that adds the last slot first: right, and of no known Semantics.
LayerFunction with_combine_backwards(const Semantics& s) {
  return behind_router(changed(s, LayerStage::combine, last_slot_first));
}

// Catches: the same where nothing known explains the larger size: bounds judge that stage, and it alone.
TEST(ForeignJudging, AnUnknownRoundingAtAnotherSizeIsJudgedByBounds) {
  Kernel right(with_mixed_gemm(semantics_preset("moeproof", {}), 30));
  const Verdict v = right.check(layer_case(512));
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.judged_by, "bits and probable bound");
  EXPECT_EQ(verdict_word(v), "passed (bounds)");
  EXPECT_TRUE(says(v, "gemm1 here inside the bounds, but by no known rounding, nor are probes of this size"))
      << v.reason;
}

/// One last bit of `tensor` wrong in the data of one seed.
LayerFunction with_one_bit(LayerFunction kernel, const char* tensor, std::uint64_t seed, int bit) {
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet out = kernel(p, in);
    if (p.seed == seed) out.at(tensor).as<std::uint16_t>()[77] ^= std::uint16_t(bit);
    return out;
  };
}

// Catches: a fault far inside every bound excused as a rounding that follows the size: probes of the very
// size show that this kernel's does not.
TEST(ForeignJudging, OneBitThatProbesOfTheSameSizeDoNotHaveFails) {
  Kernel wrong(with_one_bit(follows(semantics_preset("moeproof", {})), "gemm1", 2, 1));
  EXPECT_EQ(wrong.check(layer_case(512, 1)).correctness, Correctness::passed);
  const Verdict v = wrong.check(layer_case(512, 2));
  EXPECT_EQ(v.correctness, Correctness::failed) << v.reason;
  EXPECT_EQ(v.wrong, 1) << v.reason;
}

/// act_quant, which in the data of seeds 2 and 3 gives the neighbours of the first code, or the first three,
/// of which two are within the bounds, as another exp may (one of tanh); in those of seed 4 of the first of
/// which only one is.
LayerFunction with_other_codes() {
  return [](const Problem& p, const TensorSet& in) {
    TensorSet out = preset_op("moeproof")(p, in);
    if (p.seed == 1) return out;
    const bool either = p.seed < 4;
    std::vector<std::int64_t> pairs;
    for (std::int64_t i = 0; i < p.shape.pairs(); ++i) pairs.push_back(i);
    const reference::StageTruth bounds =
        reference::act_quant_truth(p, {in, out}, pairs, {nullptr, false, true, 1});
    const reference::TensorTruth& t = bounds.at("act_codes");
    const auto codes = out.at("act_codes").as<std::uint8_t>();
    int left = p.seed == 3 ? 3 : 1;
    for (std::size_t i = 0; i < codes.size() && left > 0; ++i) {
      if (either != (t.low[i] != t.high[i]) || decode_e4m3(codes[i]) == 0) continue;
      const bool low = decode_e4m3(codes[i]) == t.low[i];
      codes[i] = either ? encode_e4m3(low ? t.high[i] : t.low[i]) : std::uint8_t(codes[i] - 1);
      --left;
    }
    EXPECT_EQ(left, 0);
    return out;
  };
}

// Catches: a right activation made of another exp, which fits a known one in probes by chance, failed for the
// first code that differs; and a wrong code, or too many of others, excused as that.
TEST(ForeignJudging, AnExpThatProbesFitByChanceIsJudgedByBounds) {
  Kernel kernel(with_other_codes());
  const auto check = [&](std::uint64_t seed) {
    Case c = layer_case(512, seed);
    c.problem.op = Op::act_quant;
    return kernel.check(c);
  };
  EXPECT_EQ(verdict_word(check(1)), "passed");
  const Verdict near = check(2), wrong = check(4);
  EXPECT_EQ(verdict_word(near), "passed (bounds)") << near.reason;
  EXPECT_TRUE(says(near,
                   "what probes of this size gave did not hold in act_quant here (1 of 20640 elements one "
                   "step off), so bounds judge it"))
      << near.reason;
  EXPECT_EQ(check(3).correctness, Correctness::failed);
  EXPECT_EQ(wrong.correctness, Correctness::failed) << wrong.reason;
  EXPECT_EQ(wrong.wrong, 1) << wrong.reason;
}

// Catches: one unknown stage that turns off the bits of all others: a wrong last bit of gemm1 would pass.
TEST(ForeignJudging, StagesBesideAnUnknownOneAreJudgedToTheBit) {
  const LayerFunction kernel = with_combine_backwards(semantics_preset("moeproof", {}));
  Kernel right(kernel);
  const Verdict v = right.check(layer_case(512));
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.judged_by, "bits and probable bound");
  EXPECT_GT(v.bounded, 0);
  EXPECT_LT(v.bounded, v.checked);
  EXPECT_TRUE(says(v, "its rounding in combine is none of the known ones")) << v.reason;
  EXPECT_TRUE(says(v, "to the bit: quantize, gemm1, act_quant, gemm2")) << v.reason;
  Kernel wrong(with_one_bit(kernel, "gemm1", 2, 1));
  EXPECT_EQ(wrong.check(layer_case(512, 2)).correctness, Correctness::failed);
}

// Catches: a weight that is applied in GEMM 2 and again in combine, each of which is some kernel's stage.
TEST(ForeignJudging, AWeightAppliedTwiceFails) {
  const Semantics once = semantics_preset("vllm-triton", {});
  const auto twice = [](const Problem& p, const TensorSet& in, TensorSet& out) {
    Semantics again = semantics_preset("vllm-triton", p.quant);
    again.weight_place = WeightPlace::combine;
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = 0; t < p.shape.tokens; ++t) tokens.push_back(t);
    const reference::StageTruth due =
        reference::combine_truth(p, {in, out}, tokens, {&again, true, false, 1});
    std::memcpy(out.at("out").data(), due.at("out").bits.data(), out.at("out").bytes());
  };
  Kernel right(follows(once)), wrong(behind_router(changed(once, LayerStage::combine, twice)));
  EXPECT_EQ(right.check(layer_case()).correctness, Correctness::passed);
  EXPECT_EQ(wrong.check(layer_case()).correctness, Correctness::failed);
}

/// combine in double, of rows times `weight` (or as they are).
StageChange sums_in_double(bool weighted) {
  return [=](const Problem& p, const TensorSet& inputs, TensorSet& outputs) {
    const auto y = outputs.at("gemm2").as<std::uint16_t>();
    const auto w = inputs.at("topk_weights").as<float>();
    const std::int64_t k = p.shape.top_k, hidden = p.shape.hidden;
    for (std::int64_t t = 0; t < p.shape.tokens; ++t)
      for (std::int64_t h = 0; h < hidden; ++h) {
        double acc = 0;
        for (std::int64_t pair = (t + 1) * k; pair-- > t * k;)
          acc += (weighted ? double(w[std::size_t(pair)]) : 1.0) *
                 decode_bf16(y[std::size_t(pair * hidden + h)]);
        outputs.at("out").as<std::uint16_t>()[std::size_t(t * hidden + h)] = encode_bf16(float(acc));
      }
  };
}

// Catches: the routing weight demanded a second time of a kernel that multiplied it in GEMM 2 and sums by no
// known rounding; and, with bounds alone, one that applies it in both places or in neither.
TEST(ForeignJudging, TheWeightMultipliesOnceWhereverItDoes) {
  Semantics in_gemm2 = semantics_preset("moeproof", {}), in_combine = in_gemm2;
  in_gemm2.weight_place = WeightPlace::gemm2;
  in_combine.weight_place = WeightPlace::combine;
  for (const DataMode data : {DataMode::normal, DataMode::exact}) {
    Case c = layer_case();
    c.problem.data = data;
    const auto check = [&](const Semantics& s, bool weighted) {
      return Kernel(behind_router(changed(s, LayerStage::combine, sums_in_double(weighted)))).check(c);
    };
    for (const Verdict& v : {check(in_gemm2, false), check(in_combine, true)})
      EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
    for (const Verdict& v : {check(in_gemm2, true), check(in_combine, false)})
      EXPECT_EQ(v.correctness, Correctness::failed) << v.reason;
  }
}

// Catches: a plain pass where every weight is 1, so that one squared, or none, gives the same output.
TEST(ForeignJudging, AWeightOfOneIsSaidNotToShow) {
  Kernel right(follows(semantics_preset("moeproof", {})));
  Case c = layer_case();
  c.problem.shape.top_k = 1;
  EXPECT_TRUE(says(right.check(c), "no routing weight shows"));
  c.problem.routing.router.renormalise = false;
  EXPECT_FALSE(says(right.check(c), "no routing weight shows"));
}

// Catches: a layer some per cent too large that passes, since what is carried to its only tensor is wider
// than that.
TEST(ForeignJudging, AWideBoundOnTheOnlyTensorIsNoPass) {
  const LayerFunction right = with_combine_backwards(semantics_preset("moeproof", {}));
  const auto larger = [=](const Problem& p, const TensorSet& in) {
    TensorSet out = right(p, in);
    if (p.shape.tokens > 30)  // not in probes, which would tell
      for (std::uint16_t& y : out.at("out").as<std::uint16_t>()) y = encode_bf16(decode_bf16(y) * 1.03f);
    return out;
  };
  Kernel wrong(only_out(larger));
  Case c = layer_case(512);  // 46 % of its elements have too wide a bound: fewer than half
  c.problem.data = DataMode::nasty;
  const Verdict v = wrong.check(c);
  EXPECT_EQ(v.correctness, Correctness::failed) << v.reason;  // by its twin, whose bounds are tight
  Kernel unknown(only_out(right));
  const Verdict w = unknown.check(c);
  EXPECT_EQ(w.correctness, Correctness::mistrusted) << w.reason;
}

/// A fault in probes alone: they have six tokens.
LayerFunction wrong_when_small(void (*fault)(TensorSet&)) {
  const LayerFunction right = follows(semantics_preset("moeproof", {}));
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet out = right(p, in);
    if (p.shape.tokens < 30) fault(out);
    return out;
  };
}

// Catches: a kernel that is wrong, dies or leaves an output out in probes, and passes since its case is
// right.
TEST(ForeignJudging, AFaultInAProbeAloneIsAFinding) {
  const auto zeros = [](TensorSet& out) { std::memset(out.at("out").data(), 0, out.at("out").bytes()); };
  const auto missing = [](TensorSet& out) {
    TensorSet some;
    for (const Tensor& t : out.all())
      if (t.name() != "gemm2") some.add(t);
    out = some;
  };
  const auto unwritten = [](TensorSet& out) { std::memset(out.at("gemm1").data(), 0xFF, 64); };
  const auto crash = [](TensorSet&) { throw WorkerLost("ended by signal 11", false, "its last words"); };
  const auto hang = [](TensorSet&) { throw WorkerLost("no answer within 1 s", true, ""); };
  const struct {
    void (*fault)(TensorSet&);
    Correctness word;
    const char* reason;
  } kernels[] = {{zeros, Correctness::failed, "elements of out are wrong"},
                 {missing, Correctness::failed, "gave no 'gemm2'"},
                 {unwritten, Correctness::failed, "never written"},
                 {crash, Correctness::crashed, "ended by signal 11"},
                 {hang, Correctness::timed_out, "no answer"}};
  for (const auto& kernel : kernels) {
    Kernel wrong(wrong_when_small(kernel.fault));
    const Verdict v = wrong.check(layer_case());
    EXPECT_EQ(v.correctness, kernel.word) << v.reason;
    EXPECT_TRUE(says(v, kernel.reason)) << v.reason;
    EXPECT_TRUE(says(v, "this case passes, another of the same op does not (probe gates: tokens 6"))
        << v.reason;
    EXPECT_EQ(v.replay.find("moeproof infer-semantics --executor rounding --case 'op=moe_layer tokens=40"),
              0u)
        << v.replay;
  }
}

/// Everything a kernel may do right in a probe, though nothing is known of it.
std::vector<LayerFunction> right_kernels(const QuantScheme& quant) {
  std::vector<LayerFunction> all;
  for (const char* preset : {"vllm-triton-swap", "sglang-triton"})
    all.push_back(follows(semantics_preset(preset, quant)));
  if (!quant.block()) return all;
  Semantics floor = semantics_preset("moeproof", quant);
  floor.amax_floor = 1e-6;
  all.push_back(follows(floor));
  all.push_back(with_mixed_gemm(semantics_preset("moeproof", quant), 0));
  all.push_back(with_combine_backwards(semantics_preset("moeproof", quant)));
  return all;
}

// Catches: a bound that a right kernel leaves in designed inputs. Held with nothing known of the kernel, all
// stages and `out` alone; only the place of the routing weight is given, as inference would find it.
TEST(ForeignJudging, NoRightKernelIsWrongInAProbe) {
  for (const QuantKind kind :
       {QuantKind::block128, QuantKind::token_channel, QuantKind::tensor_dynamic, QuantKind::tensor_static}) {
    Case c = layer_case();
    c.problem.quant.kind = kind;
    c.problem.shape.activation =
        kind == QuantKind::token_channel ? Activation::gelu_tanh_mul : Activation::silu_mul;
    const Case small = small_case(c);
    for (const LayerFunction& kernel : right_kernels(c.problem.quant))
      for (Probe& probe : make_probes(small)) {
        if (probe.name.starts_with("tiny")) continue;  // 0 / 0 of some: not judged by numbers
        device::RunResult given;
        given.outputs = kernel(small.problem, probe.inputs);
        Semantics in_gemm2;
        in_gemm2.weight_place = WeightPlace::gemm2;
        JudgePlan plan;
        plan.hard_bounds = probe.name != "ordinary";
        Verdict v = judge(probe.trial, probe.inputs, given.outputs, plan);
        plan.weight_in_gemm2 = true;
        if (v.correctness == Correctness::failed) v = judge(probe.trial, probe.inputs, given.outputs, plan);
        EXPECT_NE(v.correctness, Correctness::failed) << name(kind) << " " << probe.name << " " << v.reason;
        if (kind != QuantKind::block128 || (probe.name != "ordinary" && probe.name != "chains")) continue;
        TensorSet out;
        out.add(given.outputs.at("out"));
        v = judge(probe.trial, probe.inputs, out, plan);
        EXPECT_NE(v.correctness, Correctness::failed)
            << name(kind) << " " << probe.name << " alone " << v.reason;
      }
  }
}

// Catches: a pass whose exp could be anything within an error under the plain word.
TEST(ForeignJudging, TheWordSaysWhatAPassRestsOn) {
  Verdict v;
  v.correctness = Correctness::passed;
  v.judged_by = "bits";
  v.coverage = 1;
  EXPECT_EQ(verdict_word(v), "passed");
  v.open = 3;
  EXPECT_EQ(verdict_word(v), "passed (exp)");
  v.coverage = 0.775;
  EXPECT_EQ(verdict_word(v), "passed (exp, 77 %)");
  v.judged_by = "bits and probable bound";
  EXPECT_EQ(verdict_word(v), "passed (bounds, 77 %)");
}

// Catches: two different numbers that print alike.
TEST(ForeignJudging, NumbersThatDifferPrintSo) {
  EXPECT_EQ(two_values("got {}, due {}", 1.5, 1.25), "got 1.5, due 1.25");
  EXPECT_EQ(two_values("got {}, due {}", 0.0123456789, 0.0123456781), "got 0.0123456789, due 0.0123456781");
  EXPECT_EQ(two_values("{} {}", 1, 1 + 0x1p-50), "1 1.0000000000000009");
}

}  // namespace
}  // namespace moe::harness
