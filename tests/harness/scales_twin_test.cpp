// Does a kernel that only bounds judge keep its factors whole? Scales and routing weights that are cut, codes
// that are flushed, must fail by the twin with one product a sum, and no right kernel may.
#include "harness/scales_twin.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/infer/finder.hpp"
#include "harness/run_problem.hpp"
#include "harness/worker_protocol.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/sparse_sum.hpp"
#include "tests/harness/planted_executor.hpp"
#include "tests/harness/strange_sums.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kTokens = 72;  // rows that no probe has

Case case_of(Op op, Contract contract, QuantScheme quant) {
  Case c;
  c.problem.op = op;
  if (op == Op::grouped_gemm) c.problem.contract = contract;
  c.problem.shape = {.tokens = kTokens, .hidden = 384, .intermediate = 128, .experts = 4, .top_k = 2};
  c.problem.quant = quant;
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  return c;
}

Verdict check(LayerFunction compute, const Case& c) {
  static const Hardware hardware = load_hardware("h200");
  RoundingExecutor executor(std::move(compute));
  SemanticsFinder finder(executor, 2);
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.finder = &finder;
  plan.threads = 2;
  return *run_problem(c.problem, {c.choice}, plan)[0].verdict;
}

bool says(const Verdict& v, const std::string& words) { return v.reason.find(words) != std::string::npos; }

/// The kernel, which reads an input otherwise than it stands there.
template <class Element>
LayerFunction reads(LayerFunction kernel, std::string name, Element (*as)(Element)) {
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet read = own_copy(in);
    if (Tensor* t = read.find(name))
      for (Element& x : t->as<Element>()) x = as(x);
    return kernel(p, read);
  };
}

float as_bf16(float x) { return decode_bf16(encode_bf16(x)); }
float cut_to_bf16(float x) { return bits_float(float_bits(x) & 0xFFFF0000u); }
float as_tf32(float x) { return bits_float((float_bits(x) + 0x1000u) & 0xFFFFE000u); }
std::uint8_t flushed(std::uint8_t code) { return (code & 0x7Fu) < 8 ? std::uint8_t(code & 0x80u) : code; }

/// Rounded to kBits bits, as a kernel that keeps its accumulator narrow has it.
template <int kBits>
float narrow(float x) {
  const std::uint32_t drop = 24 - kBits, bits = float_bits(x), half = (1u << (drop - 1)) - 1;
  return bits_float((bits + half + (bits >> drop & 1u)) >> drop << drop);
}

/// Sums of codes over all of K, or over each k-block, that `keep` rounds before the scales multiply them.
template <float (*keep)(float)>
float early_rounding(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales) {
  const bool blocks = std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) != scales.end();
  float sum = 0, part = 0;
  for (std::size_t i = 0; i < scales.size() * 128; ++i) {
    part = __builtin_fmaf(decode_e4m3(a[i]), decode_e4m3(w[i]), part);
    if (i % 128 == 127 && (blocks || i + 1 == scales.size() * 128))
      sum = __builtin_fmaf(scales[i / 128], keep(part), sum), part = 0;
  }
  return sum;
}

float kept(float x) { return x; }

constexpr QuantKind kKinds[] = {QuantKind::block128, QuantKind::token_channel, QuantKind::tensor_dynamic,
                                QuantKind::tensor_static};

void expect_cut(const Verdict& v, const std::string& what) {
  EXPECT_EQ(v.correctness, Correctness::failed) << what << v.reason;
  EXPECT_EQ(v.reason.find("within bounds on its own data, wrong in the same case with one "), 0u)
      << what << v.reason;
}

/// The judgement of the twin itself.
Verdict on_twin(const LayerFunction& kernel, const Case& c, bool pairs = true) {
  Case twin = scales_twin(c);
  twin.problem.shape.tokens = 12;
  twin.problem.shape.hidden = 256;
  const TensorSet in = scales_twin_inputs(twin, routing_of(twin.problem), pairs, 1);
  JudgePlan plan;
  plan.sparse_weights = true;
  return judge(twin, in, kernel(twin.problem, in), plan);
}

// Catches: scales of fewer than 24 bits, and subnormal codes that are flushed, under some contract or scheme
// that the twin's data do not show them in.
TEST(ScalesTwin, CutFactorsShowUnderEveryContractAndScheme) {
  const LayerFunction right = sums_by(fp32_chain);
  for (const QuantKind kind : kKinds)
    for (const Contract contract :
         {Contract::routed, Contract::contiguous, Contract::masked, Contract::offsets}) {
      const Case c = case_of(Op::grouped_gemm, contract, {kind});
      const std::string where = fmt::format("{} {}", name(kind), name(contract));
      EXPECT_EQ(on_twin(right, c).correctness, Correctness::passed) << where;
      for (const char* scale : {"a_scale", "w_scale"})
        for (auto cut : {as_bf16, cut_to_bf16, as_tf32})
          EXPECT_EQ(on_twin(reads(right, scale, cut), c).correctness, Correctness::failed) << where << scale;
      for (const char* codes : {"a_codes", "w"})
        EXPECT_EQ(on_twin(reads(right, codes, flushed), c).correctness, Correctness::failed)
            << where << codes;
    }
}

// Catches: a grouped GEMM of unknown rounding that cuts its scales: inside the bounds, and with power-of-two
// scales equal to the bit.
TEST(ScalesTwin, CutFactorsOfAGroupedGemmFail) {
  const LayerFunction right = sums_by(fp32_chain);
  expect_cut(check(reads(right, "a_scale", as_bf16), case_of(Op::grouped_gemm, Contract::masked, {})), "");
  expect_cut(check(reads(right, "a_codes", flushed),
                   case_of(Op::grouped_gemm, Contract::offsets, {QuantKind::token_channel})),
             "");
}

// Catches: scales that are powers of two by contract called cut; codes that are flushed there called whole.
TEST(ScalesTwin, PowersOfTwoAreNoCutScales) {
  const Case c = case_of(Op::grouped_gemm, Contract::masked, {QuantKind::block128, ScaleFormat::ue8m0});
  const LayerFunction right = sums_by(fp32_chain);
  const Verdict v = check(reads(reads(right, "a_scale", as_bf16), "w_scale", as_bf16), c);
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_TRUE(says(v, "its factors and sums, by one or two products a sum at this size: whole")) << v.reason;
  expect_cut(check(reads(right, "a_codes", flushed), c), "");
}

/// A layer whose GEMM 1 and combine no known Semantics explains, with the weight in GEMM 2 or in combine.
LayerFunction layer_of(WeightPlace place) {
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet all = in;
    const TensorSet routing = in.has("topk_ids") ? TensorSet() : reference::routed(p, in);
    if (!in.has("topk_ids"))
      for (const Tensor& t : routing.all()) all.add(t);
    Semantics s = semantics_preset("moeproof", p.quant), other = semantics_preset("vllm-triton", p.quant);
    s.weight_place = other.weight_place = place;
    TensorSet out =
        changed(s, LayerStage::gemm1, [&](const Problem&, const TensorSet& inputs, TensorSet& now) {
          std::vector<std::int64_t> pairs;
          for (std::int64_t i = p.shape.pairs() / 2; i < p.shape.pairs(); ++i) pairs.push_back(i);
          const reference::TruthOptions bits{&other, true, false, 1};
          const Tensor half =
              std::move(reference::gemm_truth(p, 1, {inputs, now}, pairs, bits).tensors[0].bits);
          Tensor& gemm1 = now.at("gemm1");
          std::memcpy(gemm1.data() + gemm1.bytes() - half.bytes(), half.data(), half.bytes());
        })(p, all);
    if (!in.has("topk_ids"))
      for (const Tensor& t : routing.all()) out.add(t);
    return out;
  };
}

constexpr const char* kFactors[] = {"w13_scale", "w2_scale", "topk_weights"};

Case layer_case(QuantKind kind) {
  Case c = case_of(Op::moe_layer, Contract::routed, {kind});
  c.problem.routing.ids = IdKind::given;
  return c;
}

// Catches: a layer that cuts the scales of its weights or, wherever it multiplies, the routing weight, judged
// by its stages or by `out` alone; and the right one failed for it.
TEST(ScalesTwin, CutFactorsOfALayerShow) {
  for (const QuantKind kind : kKinds)
    for (const WeightPlace place : {WeightPlace::combine, WeightPlace::gemm2})
      for (const bool alone : {false, true}) {
        const Case c = layer_case(kind);
        const LayerFunction right = alone ? only_out(layer_of(place)) : layer_of(place);
        const std::string where = fmt::format("{} {} ", name(kind), alone);
        const Verdict v = on_twin(right, c);
        EXPECT_EQ(v.correctness, Correctness::passed) << where << v.reason;
        EXPECT_LT(2 * v.open, v.checked) << where;
        for (const char* factor : kFactors)
          EXPECT_EQ(on_twin(reads(right, factor, as_bf16), c).correctness, Correctness::failed)
              << where << factor;
        EXPECT_EQ(on_twin(reads(right, "w2", flushed), c).correctness, Correctness::failed) << where;
      }
}

// Catches: a layer whose GEMM 1 or GEMM 2 rounds its sum before the scales multiply it, or a layer of which
// most activations are too small to show that.
TEST(ScalesTwin, SumsOfALayerThatAreRoundedEarlyShow) {
  for (const QuantKind kind : kKinds)
    for (const int gemm : {1, 2}) {
      const LayerFunction wrong = [&](const Problem& p, const TensorSet& in) {
        const TensorSet out = layer_of(WeightPlace::combine)(p, in);
        TensorSet early;
        for (const Tensor& t : out.all()) early.add(t);
        const reference::GroupedGemm g = reference::layer_gemm(p, gemm, in, out);
        const auto c = early.at(gemm == 1 ? "gemm1" : "gemm2").as<std::uint16_t>();
        for (const reference::GemmRow& r : g.rows)
          for (std::int64_t n = 0; n < g.w.n; ++n) {
            std::vector<float> scales;
            for (std::int64_t k = 0; k < g.w.k; k += 128)
              scales.push_back(g.a.scale(r.act, k) * g.w.scale(r.expert, n, k));
            c[std::size_t(r.out * g.w.n + n)] =
                encode_bf16(early_rounding<as_bf16>(g.a.codes + r.act * g.w.k, g.w.row(r.expert, n), scales));
          }
        return early;
      };
      const Verdict v = on_twin(wrong, layer_case(kind));
      EXPECT_EQ(v.correctness, Correctness::failed) << name(kind) << gemm << v.reason;
      EXPECT_NE(v.reason.find(gemm == 1 ? " of gemm1 are wrong" : " of gemm2 are wrong"), std::string::npos)
          << v.reason;
      EXPECT_GT(v.wrong, v.checked / 100) << name(kind) << gemm;
    }
}

// Catches: a layer whose twin is not run, or whose finding is no verdict.
TEST(ScalesTwin, CutFactorsOfALayerFail) {
  const LayerFunction right = layer_of(WeightPlace::combine), weighted = layer_of(WeightPlace::gemm2);
  const Case c = layer_case(QuantKind::block128);
  expect_cut(check(reads(right, "w13_scale", as_bf16), c), "w13_scale ");
  expect_cut(check(reads(only_out(weighted), "w2_scale", as_bf16), c), "w2_scale ");
  const Verdict v = check(right, c);
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_TRUE(says(v, "its factors and sums, by one or two products a sum at this size: whole")) << v.reason;
}

// Catches: an accumulator that is rounded to bf16, to 10 or to 11 bits before its scales multiply it, under a
// scheme or contract whose sums do not show it; and right sums failed for it, backwards and in double too.
TEST(ScalesTwin, SumsThatAreRoundedEarlyShow) {
  for (const QuantKind kind : kKinds)
    for (const Contract contract : {Contract::routed, Contract::masked}) {
      const Case c = case_of(Op::grouped_gemm, contract, {kind});
      const std::string where = fmt::format("{} {}", name(kind), name(contract));
      for (SumOfBlocks right : {early_rounding<kept>, fp32_chain, last_block_first})
        EXPECT_EQ(on_twin(sums_by(right), c).correctness, Correctness::passed) << where;
      for (SumOfBlocks wrong : {early_rounding<as_bf16>, early_rounding<cut_to_bf16>,
                                early_rounding<narrow<10>>, early_rounding<narrow<11>>}) {
        EXPECT_EQ(on_twin(sums_by(wrong), c).correctness, Correctness::failed) << where;
        EXPECT_EQ(on_twin(sums_by(wrong), c, false).correctness, Correctness::passed) << where;
      }
    }
}

// Catches: such a kernel passed as a whole, and a right one not told that its sums were seen whole.
TEST(ScalesTwin, SumsThatAreRoundedEarlyFail) {
  const Case c = case_of(Op::grouped_gemm, Contract::masked, {QuantKind::token_channel});
  const Verdict v = check(sums_by(early_rounding<as_bf16>), c);
  expect_cut(v, "");
  EXPECT_TRUE(says(v, "or sums that are rounded before their scales multiply them")) << v.reason;
}

// Catches: a refusal of either twin that leaves no word: the pass then claims what nothing showed.
TEST(ScalesTwin, ARefusalSaysWhatIsNotExcluded) {
  const Case c = case_of(Op::grouped_gemm, Contract::masked, {});
  int runs = 0;
  const LayerFunction tired = [&runs](const Problem& p, const TensorSet& in) {
    if (p.shape.tokens == kTokens && ++runs > 1) throw WorkerRefused("no such numbers");
    return sums_by(fp32_chain)(p, in);
  };
  const Verdict v = check(tired, c);
  EXPECT_EQ(v.correctness, Correctness::passed) << v.reason;
  EXPECT_TRUE(says(v,
                   "not excluded here: a small factor on the sums, or results that are cut (no run on exact "
                   "data: the kernel refuses it: no such numbers)"))
      << v.reason;
  EXPECT_TRUE(says(
      v,
      "not excluded here: scales, routing weights or subnormal codes that are not kept whole, or sums that "
      "are rounded before their scales multiply them (no run with one or two products a sum: the "
      "kernel refuses it: no such numbers)"))
      << v.reason;
  EXPECT_FALSE(says(v, "whole, within")) << v.reason;
}

/// A small problem of any scheme, contract, activation and size.
Problem any_problem() {
  Problem p;
  p.op = *rc::gen::element(Op::moe_layer, Op::grouped_gemm);
  const Contract contract =
      *rc::gen::element(Contract::routed, Contract::contiguous, Contract::masked, Contract::offsets);
  if (p.op == Op::grouped_gemm) p.contract = contract;
  p.quant.kind = *rc::gen::elementOf(std::vector<QuantKind>(std::begin(kKinds), std::end(kKinds)));
  if (p.quant.block()) p.quant.scale_format = *rc::gen::element(ScaleFormat::f32, ScaleFormat::ue8m0);
  p.shape = {.tokens = *rc::gen::inRange(1, 20),
             .hidden = 16 * *rc::gen::inRange(1, 25),
             .intermediate = 16 * *rc::gen::inRange(1, 17),
             .experts = 4,
             .top_k = *rc::gen::inRange(1, 4)};
  p.shape.activation = *rc::gen::element(Activation::silu_mul, Activation::silu_mul_clamped,
                                         Activation::gelu_tanh_mul, Activation::relu2);
  if (p.shape.activation == Activation::silu_mul_clamped)
    p.shape.limit = 7, p.shape.alpha = 1.702, p.shape.beta = 1;
  p.shape.bias = *rc::gen::arbitrary<bool>();
  p.gemm = p.op == Op::grouped_gemm ? *rc::gen::inRange(1, 3) : 1;
  p.seed = *rc::gen::inRange(1, 1000);
  if (p.op == Op::moe_layer) p.routing.ids = IdKind::given;
  return p;
}

/// Roundings of any kind that a right kernel may have.
Semantics any_semantics(const QuantScheme& quant) {
  Semantics s = semantics_preset(*rc::gen::element<std::string>("moeproof", "vllm-triton", "vllm-triton-swap",
                                                                "sglang-triton", "deepgemm", "cutlass"),
                                 quant);
  s.scale_order =
      *rc::gen::element(ScaleOrder::product_fma, ScaleOrder::act_weight_fma, ScaleOrder::weight_act_fma,
                        ScaleOrder::act_weight_mul_add, ScaleOrder::product_mul_add);
  s.gate_rounding = *rc::gen::element(GateRounding::none, GateRounding::bf16);
  s.product_rounding = *rc::gen::element(ProductRounding::none, ProductRounding::bf16);
  s.weight_place = *rc::gen::element(WeightPlace::combine, WeightPlace::gemm2);
  s.combine_fma = *rc::gen::arbitrary<bool>();
  return s;
}

// Catches: a twin that fails a right kernel, by its stages or by `out` alone.
RC_GTEST_PROP(ScalesTwin, NoRightKernelFails, ()) {
  Case c;
  c.problem = any_problem();
  const Problem& p = c.problem;
  const Semantics s = any_semantics(p.quant);
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  const Routing routing = routing_of(p);
  const TensorSet in = scales_twin_inputs(scales_twin(c), routing, true, 1);
  JudgePlan plan;
  plan.sparse_weights = true;
  TensorSet out;
  if (p.op == Op::moe_layer) {
    out = reference::exact_layer(p, s, in, 1);
  } else {
    std::vector<std::int64_t> rows;
    std::int64_t last = 0;
    for (const reference::GemmRow& r : reference::contract_gemm(p, in).rows)
      rows.push_back(r.out), last = std::max(last, r.out + 1);
    const reference::TensorTruth due =
        std::move(reference::grouped_gemm_truth(p, in, rows, {&s, true, false, 1}).tensors[0]);
    Tensor full("c", DType::bf16, {last, due.columns});
    for (std::size_t i = 0; i < due.rows.size(); ++i)
      std::memcpy(full.data() + due.rows[i] * due.columns * 2,
                  due.bits.data() + std::int64_t(i) * due.columns * 2, std::size_t(due.columns) * 2);
    if (p.contract == Contract::masked) {
      const std::int64_t groups = in.at("a_codes").dim(0), most = in.at("a_codes").dim(1);
      Tensor shaped("c", DType::bf16, {groups, most, due.columns});
      std::memcpy(shaped.data(), full.data(), full.bytes());
      full = shaped;
    }
    out.add(full);
  }
  const Verdict v = judge(c, in, out, plan);
  if (v.correctness == Correctness::failed) RC_FAIL(to_line(c) + " " + v.reason);
  if (p.op != Op::moe_layer) return;
  TensorSet alone;
  alone.add(out.at("out"));
  const Verdict shown = judge(c, in, alone, plan);
  if (shown.correctness == Correctness::failed) RC_FAIL(to_line(c) + " out alone: " + shown.reason);
}

// Catches: a sum over sparse weights that is not the sum.
RC_GTEST_PROP(SparseSum, EqualsTheDenseSum, ()) {
  Case c;
  c.problem = any_problem();
  c.problem.op = Op::grouped_gemm;
  c.problem.contract = Contract::offsets;
  c.problem.routing.ids = IdKind::routed;
  const TensorSet in =
      scales_twin_inputs(scales_twin(c), routing_of(c.problem), *rc::gen::arbitrary<bool>(), 1);
  const reference::GroupedGemm gemm = reference::contract_gemm(c.problem, in);
  const reference::GroupedSum sparse = reference::sparse_sum(gemm, gemm.rows, nullptr, 2);
  const reference::GroupedSum dense = reference::grouped_sum(gemm, gemm.rows, nullptr, {std::nullopt, 1});
  RC_ASSERT(sparse.value.size() == dense.value.size());
  for (std::size_t i = 0; i < dense.value.size(); ++i)
    RC_ASSERT(std::fabs(sparse.value[i] - dense.value[i]) <= 0x1p-25 * sparse.bound[i]);
}

}  // namespace
}  // namespace moe::harness
