// How is a kernel judged that declares nothing? To the bit where the data leave one answer, else by the
// probable bound, and mistrusted where that is too wide.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/judge.hpp"
#include "harness/same_bits.hpp"
#include "reference/layer.hpp"
#include "reference/stage_rows.hpp"
#include "reference/truth.hpp"

namespace moe::harness {
namespace {

constexpr QuantKind kKinds[] = {QuantKind::tensor_static, QuantKind::tensor_dynamic, QuantKind::token_channel,
                                QuantKind::block128};
constexpr const char* kPresets[] = {"moeproof",      "vllm-triton", "vllm-triton-swap",
                                    "sglang-triton", "deepgemm",    "cutlass"};

/// A problem, and what a kernel of some preset gives for it.
struct Trial {
  Case c;
  TensorSet inputs, outputs;

  Trial(Op op, QuantKind kind, DataMode data, std::int64_t k = 512, const std::string& load = "uniform") {
    Problem& p = c.problem;
    p.op = op;
    p.contract = Contract::offsets;
    p.shape = {.tokens = 24, .hidden = k, .intermediate = 256, .experts = 4, .top_k = 2};
    if (op == Op::grouped_gemm) p.shape.top_k = 1;
    p.quant.kind = kind;
    p.data = data;
    p.routing.load = parse_load(load);
    const Routing routing = routing_of(p);
    c.choice = resolve_tiles(c.choice, c.problem, routing.load(0, 4));
    inputs = make_inputs(p, c.choice, routing, 1);
  }
  void run(const char* preset) {
    Semantics semantics = semantics_preset(preset, c.problem.quant);
    semantics.weight_place = WeightPlace::combine;  // as the tensors' contract says to who declares nothing
    if (c.problem.op == Op::moe_layer) {
      outputs = reference::exact_layer(c.problem, semantics, inputs, 2);
      return;
    }
    const reference::TruthOptions bits{&semantics, true, false, 2};
    const auto tokens = reference::all_rows(c.problem.shape.tokens),
               pairs = reference::all_rows(c.problem.shape.pairs());
    const TensorSet none;
    const reference::StageTensors read{inputs, none};
    reference::StageTruth truth;
    if (c.problem.op == Op::grouped_gemm)
      truth = reference::grouped_gemm_truth(c.problem, inputs, tokens, bits);
    if (c.problem.op == Op::quantize) truth = reference::quantize_truth(c.problem, read, tokens, bits);
    if (c.problem.op == Op::act_quant) truth = reference::act_quant_truth(c.problem, read, pairs, bits);
    if (c.problem.op == Op::combine) truth = reference::combine_truth(c.problem, read, tokens, bits);
    outputs = TensorSet();
    for (reference::TensorTruth& t : truth.tensors) outputs.add(std::move(t.bits));
  }
  Verdict verdict() const {
    JudgePlan plan;
    plan.threads = 2;
    return judge(c, inputs, outputs, plan);
  }
  std::uint16_t& bf16(const char* tensor, std::size_t i) { return outputs.at(tensor).as<std::uint16_t>()[i]; }
};

// Catches: a claim of "one answer" that some correct kernel does not give, which would fail it.
TEST(Undeclared, EveryPresetGivesTheOneAnswer) {
  for (const DataMode data : {DataMode::exact, DataMode::coded})
    for (const QuantKind kind : kKinds)
      for (const Op op : {Op::grouped_gemm, Op::quantize, Op::act_quant, Op::combine, Op::moe_layer}) {
        Trial trial(op, kind, data);
        for (const char* preset : kPresets) {
          trial.run(preset);
          const Verdict v = trial.verdict();
          EXPECT_TRUE(v.correctness == Correctness::passed || v.correctness == Correctness::mistrusted)
              << name(data) << " " << name(kind) << " " << name(op) << " " << preset << ": " << v.reason;
          if (op == Op::grouped_gemm) {
            EXPECT_EQ(v.judged_by, "bits");
          }
        }
      }
}

// Catches: exact data judged by a bound that lets a wrong last bit pass.
TEST(Undeclared, OneWrongBitFailsOnExactData) {
  for (const DataMode data : {DataMode::exact, DataMode::coded}) {
    Trial trial(Op::grouped_gemm, QuantKind::tensor_static, data);
    trial.run("vllm-triton");
    std::size_t at = 0;
    while ((trial.bf16("c", at) & 0x7FFFu) == 0) ++at;
    trial.bf16("c", at) ^= 1;
    const Verdict v = trial.verdict();
    EXPECT_EQ(v.correctness, Correctness::failed);
    EXPECT_EQ(v.wrong, 1);
    EXPECT_NE(v.reason.find("one answer"), std::string::npos) << v.reason;
  }
  Trial layer(Op::moe_layer, QuantKind::block128, DataMode::exact);
  layer.run("cutlass");
  layer.bf16("gemm1", 77) ^= 1;
  EXPECT_EQ(layer.verdict().correctness, Correctness::failed);
}

// Catches: false alarms on real data, and verdicts that trust nothing there.
TEST(Undeclared, CorrectKernelsPassOnRealData) {
  for (const DataMode data : {DataMode::normal, DataMode::impulse})
    for (const QuantKind kind : kKinds)
      for (const Op op : {Op::grouped_gemm, Op::moe_layer}) {
        Trial trial(op, kind, data);
        for (const char* preset : {"moeproof", "deepgemm", "cutlass"}) {
          trial.run(preset);
          const Verdict v = trial.verdict();
          EXPECT_EQ(v.correctness, Correctness::passed)
              << name(data) << " " << name(kind) << " " << name(op) << " " << preset << ": " << v.reason;
          EXPECT_EQ(v.judged_by, "probable bound");
        }
      }
}

// Catches: a fault that only the order-free bound is asked about. A value off by a tenth of the rms is
// outside the probable bound and inside the hard one; a huge one is outside both, and the reason says which.
TEST(Undeclared, TheReasonSaysWhichBoundIsBroken) {
  Trial trial(Op::grouped_gemm, QuantKind::tensor_static, DataMode::normal, 2048);
  trial.run("vllm-triton-swap");
  double square = 0;
  for (const std::uint16_t code : trial.outputs.at("c").as<std::uint16_t>())
    square += std::pow(decode_bf16(code), 2);
  const float rms = float(std::sqrt(square / double(trial.outputs.at("c").size())));
  trial.bf16("c", 300) = encode_bf16(decode_bf16(trial.bf16("c", 300)) + rms / 4);
  const Verdict near = trial.verdict();
  EXPECT_EQ(near.correctness, Correctness::failed);
  EXPECT_EQ(near.wrong, 1);
  EXPECT_NE(near.reason.find("probability 1e-12 at most, 0 of them outside"), std::string::npos)
      << near.reason;
  trial.bf16("c", 300) = encode_bf16(1e4f * rms);
  const Verdict far = trial.verdict();
  EXPECT_NE(far.reason.find("1 of them outside the bound of any order"), std::string::npos) << far.reason;
}

// Catches: a pass that proves nothing. Products of one sign in one chain over K lose so much that no bound is
// tight; such a kernel is mistrusted, not passed.
TEST(Undeclared, ATooWideBoundIsMistrusted) {
  Trial trial(Op::grouped_gemm, QuantKind::tensor_static, DataMode::normal, 4096);
  for (const char* codes : {"a_codes", "w"})
    for (std::uint8_t& code : trial.inputs.at(codes).as<std::uint8_t>()) code &= 0x7Fu;
  trial.run("vllm-triton-swap");
  const Verdict v = trial.verdict();
  EXPECT_EQ(v.correctness, Correctness::mistrusted) << v.reason;
  EXPECT_NE(v.reason.find("too wide"), std::string::npos) << v.reason;
}

void show_only_out(Trial& trial) {
  TensorSet only;
  only.add(std::move(trial.outputs.at("out")));
  trial.outputs = std::move(only);
}

/// A Trial copied shares its tensors: this one's `out` is its own.
Trial with_own_out(const Trial& trial) {
  Trial own = trial;
  const Tensor& shared = trial.outputs.at("out");
  Tensor out("out", shared.dtype(), shared.shape());
  std::memcpy(out.data(), shared.data(), shared.bytes());
  own.outputs = TensorSet();
  own.outputs.add(std::move(out));
  return own;
}

/// Every element of `out` times 1.5.
void make_half_larger(Trial& trial) {
  for (std::uint16_t& code : trial.outputs.at("out").as<std::uint16_t>())
    code = encode_bf16(1.5f * decode_bf16(code));
}

/// `out` without the last slot of each token.
void drop_last_slot(Trial& trial) {
  const std::size_t slots = std::size_t(trial.c.problem.shape.top_k);
  const auto weights = trial.inputs.at("topk_weights").as<float>();
  const std::vector<float> given(weights.begin(), weights.end());
  for (std::size_t pair = slots - 1; pair < weights.size(); pair += slots) weights[pair] = 0;
  trial.run("deepgemm");
  show_only_out(trial);
  std::copy(given.begin(), given.end(), weights.begin());
}

/// A routing of 24 tokens without weights.
std::string two_slot_trace() {
  const std::string path = testing::TempDir() + "undeclared_trace_" + std::to_string(::getpid()) + ".csv";
  std::ofstream file(path);
  file << "token,slot,expert\n";
  for (int t = 0; t < 24; ++t)
    file << t << ",0," << t % 4 << "\n" << t << ",1," << (t + 1 + t / 4 % 3) % 4 << "\n";
  return "trace:" + path;
}

// Catches: a kernel that shows only `out` passed by an interval in which most wrong layers lie as well: every
// code before it is open within its bound. A row of zeros leaves it, what stays inside proves nothing.
TEST(Undeclared, TheLayersOutputAloneIsMistrusted) {
  Trial trial(Op::moe_layer, QuantKind::block128, DataMode::normal, 512, two_slot_trace());
  trial.run("deepgemm");
  show_only_out(trial);
  const Verdict v = trial.verdict();
  EXPECT_EQ(v.correctness, Correctness::mistrusted) << v.reason;
  EXPECT_NE(v.reason.find("show the stages (outputs=STAGES"), std::string::npos) << v.reason;
  for (const auto fault : {make_half_larger, drop_last_slot}) {
    Trial wrong = with_own_out(trial);
    fault(wrong);
    EXPECT_NE(wrong.verdict().correctness, Correctness::passed);
  }
  std::memset(trial.outputs.at("out").data(), 0, 512 * 2);
  EXPECT_EQ(trial.verdict().correctness, Correctness::failed);
}

// Catches: the remedy that the reason names not working: where each stage has one answer, so has `out`.
TEST(Undeclared, ExactDataAndATraceJudgeTheLayersOutputToTheBit) {
  const std::string load = two_slot_trace();
  for (const QuantKind kind : kKinds) {
    Trial trial(Op::moe_layer, kind, DataMode::exact, 512, load);
    for (const char* preset : kPresets) {
      trial.run(preset);
      show_only_out(trial);
      const Verdict v = trial.verdict();
      EXPECT_EQ(v.correctness, Correctness::passed) << name(kind) << " " << preset << ": " << v.reason;
      EXPECT_EQ(v.judged_by, "bits");
      EXPECT_NE(v.reason.find("cannot show the activation or a rounding"), std::string::npos) << v.reason;
    }
    for (const auto fault : {make_half_larger, drop_last_slot}) {
      Trial wrong = with_own_out(trial);
      fault(wrong);
      EXPECT_EQ(wrong.verdict().correctness, Correctness::failed) << name(kind);
    }
    std::size_t at = 0;
    while ((trial.bf16("out", at) & 0x7FFFu) == 0) ++at;
    trial.bf16("out", at) ^= 1;
    EXPECT_EQ(trial.verdict().wrong, 1) << name(kind);
  }
}

// Catches: routing weights that are no power of two taken for exact, which would fail right kernels.
TEST(Undeclared, OtherRoutingWeightsLeaveNoOneAnswer) {
  Trial trial(Op::moe_layer, QuantKind::block128, DataMode::exact, 512, two_slot_trace());
  EXPECT_TRUE(same_bits_for_whole_layer(trial.c.problem, trial.inputs));
  trial.inputs.at("topk_weights").as<float>()[5] = 0.3f;
  EXPECT_FALSE(same_bits_for_whole_layer(trial.c.problem, trial.inputs));
  const Trial routed(Op::moe_layer, QuantKind::block128, DataMode::exact);  // by a router's softmax
  EXPECT_FALSE(same_bits_for_whole_layer(routed.c.problem, routed.inputs));
}

// Catches: a router that is judged up to ties and reported as judged to the bit.
TEST(Undeclared, ARouterIsNotJudgedToTheBit) {
  Trial trial(Op::topk, QuantKind::block128, DataMode::normal);
  const TensorSet right = reference::routed(trial.c.problem, trial.inputs);
  for (const char* tensor : {"topk_ids", "topk_weights"}) trial.outputs.add(right.at(tensor));
  const Verdict v = trial.verdict();
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_EQ(v.judged_by, "interval");
}

// Catches: a quantiser that may answer zeros: a floor that makes every due code zero proves nothing.
TEST(Undeclared, AQuantiserOfZerosIsMistrusted) {
  Trial trial(Op::quantize, QuantKind::block128, DataMode::normal);
  Semantics floor = semantics_preset("moeproof", trial.c.problem.quant);
  floor.amax_floor = 1e30f;
  const reference::TruthOptions bits{&floor, true, false, 2};
  const TensorSet none;
  reference::StageTruth truth = reference::quantize_truth(
      trial.c.problem, reference::StageTensors{trial.inputs, none}, reference::all_rows(24), bits);
  for (reference::TensorTruth& t : truth.tensors) trial.outputs.add(std::move(t.bits));
  JudgePlan plan;
  plan.semantics = floor;
  const Verdict v = judge(trial.c, trial.inputs, trial.outputs, plan);
  EXPECT_EQ(v.correctness, Correctness::mistrusted) << v.reason;
  EXPECT_NE(v.reason.find("all-zero x_codes"), std::string::npos) << v.reason;
}

// Catches: a fault class that only kernels which declare something get: on coded data an output names what
// was read, so that rows and column blocks in each other's place are told.
TEST(Undeclared, CodedDataTellWhatWasReadInstead) {
  Trial trial(Op::grouped_gemm, QuantKind::block128, DataMode::coded);
  trial.run("moeproof");
  const std::size_t columns = std::size_t(trial.outputs.at("c").shape().back());
  const auto swapped = [&](std::size_t a, std::size_t b, std::size_t count) {
    std::swap_ranges(&trial.bf16("c", a), &trial.bf16("c", a) + count, &trial.bf16("c", b));
    const std::string fault = trial.verdict().fault_class;
    std::swap_ranges(&trial.bf16("c", a), &trial.bf16("c", a) + count, &trial.bf16("c", b));
    return fault;
  };
  const std::size_t second = std::size_t(trial.inputs.at("offsets").as<std::int32_t>()[1]);
  EXPECT_EQ(swapped(0, second * columns, columns).find("rows of another expert"), 0u);
  EXPECT_EQ(swapped(0, columns, columns).find("rows of another token"), 0u);
  EXPECT_EQ(swapped(0, 128, 128).find("columns of another 128-column block"), 0u);
  EXPECT_EQ(trial.verdict().correctness, Correctness::passed);
}

// Catches: a place that nobody finds: a row counted over all experts, and a NaN where nothing was written.
TEST(Undeclared, AWrongElementIsLocated) {
  Trial trial(Op::grouped_gemm, QuantKind::block128, DataMode::exact);
  trial.run("moeproof");
  const std::size_t second = std::size_t(trial.inputs.at("offsets").as<std::int32_t>()[1]);
  const std::size_t columns = std::size_t(trial.outputs.at("c").shape().back());
  trial.bf16("c", (second + 1) * columns + 7) = 0xFFFF;
  const Verdict v = trial.verdict();
  EXPECT_NE(v.reason.find("expert 1, its row 1 (row " + std::to_string(second + 1) +
                          " of c), column 7: never written, due "),
            std::string::npos)
      << v.reason;
}

}  // namespace
}  // namespace moe::harness
