// Do the intervals hold everything that a correct kernel gives, and nothing that a wrong one gives? Correct
// kernels are the bit-exact model under every preset and under mixed Semantics; the wrong ones lose a block
// of K, a scale, an expert.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "bound_draw.hpp"
#include "reference/layer.hpp"

namespace moe::reference {
namespace {

double value_of(DType type, const Tensor& tensor, std::int64_t i) {
  if (type == DType::bf16) return decode_bf16(tensor.as<std::uint16_t>()[i]);
  if (type == DType::e4m3) return decode_e4m3(tensor.as<std::uint8_t>()[i]);
  return tensor.as<float>()[i];
}

// Worst ratio of a stage tensor among `outputs` against its truth, hard and probable.
double worst_ratio(const StageTruth& stage, const TensorSet& outputs) {
  double worst = 0;
  for (const TensorTruth& truth : stage.tensors)
    for (std::size_t r = 0; r < truth.rows.size(); ++r)
      for (std::int64_t c = 0; c < truth.columns; ++c) {
        const std::size_t i = r * std::size_t(truth.columns) + std::size_t(c);
        const double got = value_of(truth.type, outputs.at(truth.tensor), truth.rows[r] * truth.columns + c);
        worst = std::fmax(worst, truth.ratio(i, got));
        if (truth.probable_low.empty()) continue;
        worst =
            std::fmax(worst, draw::share(got, truth.want[i], truth.probable_low[i], truth.probable_high[i]));
      }
  return worst;
}

struct Judged {
  const char* stage;
  double ratio;
};

std::vector<Judged> judge_all(const Problem& problem, const TensorSet& inputs, const TensorSet& outputs,
                              const Semantics* semantics) {
  const StageTensors tensors{inputs, outputs};
  const TruthOptions options{semantics, false, true, 2, true};
  const auto tokens = all_rows(problem.shape.tokens), pairs = all_rows(problem.shape.pairs());
  return {{"quantize", worst_ratio(quantize_truth(problem, tensors, tokens, options), outputs)},
          {"gemm1", worst_ratio(gemm_truth(problem, 1, tensors, pairs, options), outputs)},
          {"act_quant", worst_ratio(act_quant_truth(problem, tensors, pairs, options), outputs)},
          {"gemm2", worst_ratio(gemm_truth(problem, 2, tensors, pairs, options), outputs)},
          {"combine", worst_ratio(combine_truth(problem, tensors, tokens, options), outputs)},
          {"layer", worst_ratio(layer_truth(problem, inputs, tokens, options), outputs)}};
}

// Catches: a bound that leaves out a rounding, a truncation or a decision of any preset, at any stage or over
// the whole layer, hard or probable; intervals that depend on which Semantics is declared in the wrong
// direction.
RC_GTEST_PROP(Bound, NoBitExactResultLeavesItsInterval, (std::uint64_t seed)) {
  draw::Random random(seed);
  const QuantKind kind = draw::kKinds[random() % 4];
  const draw::Layer layer = draw::layer(random, kind);
  Semantics semantics = draw::semantics(random, layer.problem.quant);
  const bool declared = random() % 2;
  if (!declared) {  // what a kernel that declares nothing promises: the contract's tensors, no 0 / 0
    semantics.weight_place = WeightPlace::combine;
    semantics.amax_floor = std::fmax(semantics.amax_floor, 1e-10);
  }
  const TensorSet outputs = exact_layer(layer.problem, semantics, layer.inputs, 2);
  for (const Judged& judged :
       judge_all(layer.problem, layer.inputs, outputs, declared ? &semantics : nullptr)) {
    if (!(judged.ratio <= 1))
      RC_LOG() << judged.stage << " " << judged.ratio << " " << semantics << " " << layer.problem
               << (declared ? " declared" : " undeclared") << "\n";
    RC_ASSERT(judged.ratio <= 1);
  }
}

// Catches: spec outside its own interval (want must be allowed).
RC_GTEST_PROP(Bound, SpecStaysInItsInterval, (std::uint64_t seed)) {
  draw::Random random(seed);
  const QuantKind kind = draw::kKinds[random() % 4];
  const draw::Layer layer = draw::layer(random, kind);
  Semantics semantics = semantics_preset(draw::kPresets[random() % 6], layer.problem.quant);
  const TensorSet outputs = spec_layer(layer.problem, semantics, layer.inputs, 2);
  for (const Judged& judged : judge_all(layer.problem, layer.inputs, outputs, &semantics)) {
    if (!(judged.ratio <= 1))
      RC_LOG() << judged.stage << " " << judged.ratio << " " << semantics << " " << layer.problem;
    RC_ASSERT(judged.ratio <= 1);
  }
}

draw::Layer tame_layer(std::uint64_t seed, std::int64_t hidden, std::int64_t intermediate) {
  draw::Random random(seed);
  draw::Layer layer;
  layer.problem.shape = {
      .tokens = 4, .hidden = hidden, .intermediate = intermediate, .experts = 4, .top_k = 2};
  layer.inputs = draw::layer_inputs(random, layer.problem, draw::Flavour::normal);
  return layer;
}

// Share of elements of `tensor` outside [low, high] when `outputs` are judged without any declared Semantics.
double rejected(const StageTruth& stage, const TensorSet& outputs, bool probable = false) {
  std::size_t wrong = 0, all = 0;
  for (const TensorTruth& truth : stage.tensors)
    for (std::size_t i = 0; i < truth.low.size(); ++i, ++all) {
      const std::int64_t at =
          truth.rows[i / std::size_t(truth.columns)] * truth.columns + std::int64_t(i) % truth.columns;
      const double got = value_of(truth.type, outputs.at(truth.tensor), at);
      wrong +=
          probable ? got < truth.probable_low[i] || got > truth.probable_high[i] : truth.ratio(i, got) > 1;
    }
  return double(wrong) / double(all);
}

// Catches: a bound so loose that it judges nothing. GEMM 1 of a correct kernel, but without its last 128 k's.
TEST(Bound, AMissingBlockOfKIsSeenByMostElements) {
  const TruthOptions nothing_declared{nullptr, false, true, 2};
  for (const std::int64_t hidden : {256, 512, 1024}) {
    const draw::Layer layer = tame_layer(5, hidden, 128);
    TensorSet outputs = exact_layer(layer.problem, Semantics{}, layer.inputs, 2);
    TensorSet cut;
    for (const Tensor& tensor : outputs.all()) {
      Tensor copy(tensor.name(), tensor.dtype(), tensor.shape());
      std::copy_n(tensor.data(), tensor.bytes(), copy.data());
      cut.add(std::move(copy));
    }
    for (std::int64_t row = 0; row < 4; ++row)
      std::fill_n(cut.at("x_codes").as<std::uint8_t>().data() + row * hidden + hidden - 128, 128,
                  std::uint8_t(0));
    const Semantics semantics;
    const TruthOptions bits{&semantics, true, false, 2};
    const auto pairs = all_rows(layer.problem.shape.pairs());
    const StageTruth wrong = gemm_truth(layer.problem, 1, {layer.inputs, cut}, pairs, bits);
    const TensorTruth& wrong_gemm1 = wrong.at("gemm1");
    for (std::size_t i = 0; i < wrong_gemm1.rows.size(); ++i)
      std::copy_n(wrong_gemm1.bits.data() + i * std::size_t(wrong_gemm1.columns) * 2, wrong_gemm1.columns * 2,
                  outputs.at("gemm1").data() + wrong_gemm1.rows[i] * wrong_gemm1.columns * 2);
    const double share =
        rejected(gemm_truth(layer.problem, 1, {layer.inputs, outputs}, pairs, nothing_declared), outputs);
    EXPECT_GT(share, hidden == 1024 ? 0.5 : 0.7) << hidden;
    RecordProperty("rejected_at_k_" + std::to_string(hidden), std::to_string(share));
    std::printf("[ figure   ] K %lld: %.2f of the outputs without 128 of their k's are outside the bound\n",
                static_cast<long long>(hidden), share);
  }
}

// Catches: whole-layer intervals that hold anything. One of a token's two experts is left out. With f16 HMMA
// declared few requantisation decisions are open and the fault shows; with FP8 wgmma, or nothing declared,
// the order-free bound leaves nearly every decision open and adds up the worst case, which is why such
// kernels are judged by bits or by stage.
TEST(Bound, AMissingExpertIsSeenInTheWholeLayerWhereTheAccumulatorIsFine) {
  draw::Layer layer = tame_layer(9, 256, 128);
  auto ids = layer.inputs.at("topk_ids").as<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i % 4);
  const std::vector<std::int64_t> first{0};
  for (const char* preset : {"vllm-triton", "moeproof", "nothing"}) {
    const bool declared = std::string(preset) != "nothing";
    const Semantics semantics = declared ? semantics_preset(preset, {}) : Semantics{};
    const TruthOptions options{declared ? &semantics : nullptr, false, true, 2, true};
    ids[0] = 0;
    const StageTruth truth = layer_truth(layer.problem, layer.inputs, first, options);
    EXPECT_EQ(rejected(truth, exact_layer(layer.problem, semantics, layer.inputs, 2)), 0.0) << preset;
    ids[0] = -1;
    const double share = rejected(truth, exact_layer(layer.problem, semantics, layer.inputs, 2));
    if (std::string(preset) == "vllm-triton") {
      EXPECT_GT(share, 0.9);
    }
    const double likely = rejected(truth, exact_layer(layer.problem, semantics, layer.inputs, 2), true);
    EXPECT_GE(likely, share) << preset;
    std::printf(
        "[ figure   ] %s: of a token's outputs without one of two experts %.2f are outside, %.2f of the "
        "probable bound\n",
        preset, share, likely);
  }
}

}  // namespace
}  // namespace moe::reference
