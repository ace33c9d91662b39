// Does the probable bound hold every correct kernel that declares nothing, and is it tight enough to judge?
// bound_alarm (tests/reference/apps) runs the first question over as many outputs as one likes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <span>

#include "bound_draw.hpp"
#include "reference/chain_walk.hpp"

namespace moe::reference {
namespace {

// Catches: a truncation, bias or partial sum that the bound leaves out; a bound that holds only for the order
// in which it walks K itself; a probable interval that is wider than the hard one.
RC_GTEST_PROP(ProbableBound, NoBitExactSumLeavesIt, (std::uint64_t seed)) {
  draw::Random random(seed);
  const draw::GemmTrial trial = draw::gemm(random, 4, 128, 2048);
  const StageTruth stage = draw::undeclared_bounds(trial.problem, trial.inputs, 2);
  const TensorTruth& truth = stage.tensors[0];
  const int order = int(random() % 3);
  const Semantics semantics = draw::semantics(random, trial.problem.quant);
  const TensorSet inputs = order ? draw::in_another_order(random, trial, order == 2) : own_copy(trial.inputs);
  const StageTruth bits = draw::gemm_bits_of(trial.problem, inputs, semantics, 2);
  const draw::Reach reach = draw::reach_of(truth, bits.tensors[0].bits.as<std::uint16_t>());
  if (reach.outside > 0)
    RC_LOG() << trial.data << " order " << order << " " << semantics << " " << trial.problem;
  RC_ASSERT(reach.outside == 0);
  RC_ASSERT(reach.hard <= 1);
  for (std::size_t i = 0; i < truth.low.size(); ++i) {
    RC_ASSERT(!(truth.probable_low[i] < truth.low[i]));
    RC_ASSERT(!(truth.probable_high[i] > truth.high[i]));
  }
}

draw::GemmTrial normal_gemm(QuantKind kind, std::int64_t k) {
  draw::GemmTrial trial;
  Problem& p = trial.problem;
  p.op = Op::grouped_gemm;
  p.contract = Contract::offsets;
  p.quant.kind = kind;
  p.shape = {.tokens = 16, .hidden = k, .intermediate = 64, .experts = 1, .top_k = 1};
  trial.inputs = draw::generated(p);
  return trial;
}

// Catches: a bound too loose to judge. The median half-width stays under a tenth of the rms output and under
// 1 % of the elements are weak, with block scales and with one scale a tensor.
TEST(ProbableBound, IsTightOnNormalData) {
  for (const QuantKind kind : {QuantKind::block128, QuantKind::tensor_static}) {
    const draw::GemmTrial trial = normal_gemm(kind, 4096);
    const StageTruth stage = draw::undeclared_bounds(trial.problem, trial.inputs, 2);
    const TensorTruth& truth = stage.tensors[0];
    std::vector<double> widths;
    double square = 0;
    std::int64_t weak = 0;
    for (std::size_t i = 0; i < truth.want.size(); ++i) {
      widths.push_back(half_width(truth, i));
      square += double(truth.want[i]) * truth.want[i];
      weak += truth.weak[i];
    }
    std::sort(widths.begin(), widths.end());
    EXPECT_LT(widths[widths.size() / 2], 0.1 * std::sqrt(square / double(widths.size()))) << name(kind);
    EXPECT_LT(double(weak), 0.01 * double(widths.size())) << name(kind);
  }
}

// What a kernel with a fault reads instead of the inputs.
TensorSet faulty(const draw::GemmTrial& trial, const std::string& fault) {
  TensorSet inputs = own_copy(trial.inputs);
  const std::int64_t k = trial.problem.shape.hidden, rows = trial.problem.shape.tokens;
  const std::int64_t missing = fault == "32 k's missing" ? 32 : fault == "128 k's missing" ? 128 : 0;
  for (std::int64_t r = 0; r < rows; ++r)
    std::fill_n(inputs.at("a_codes").as<std::uint8_t>().data() + r * k + k / 2, missing, std::uint8_t(0));
  if (fault == "one block's scale doubled") inputs.at("w_scale").as<float>()[std::size_t(k / 256)] *= 2;
  return inputs;
}

// Share of a faulty kernel's outputs outside the probable (or hard) interval.
double caught(const draw::GemmTrial& trial, const std::string& fault, const char* preset, bool hard) {
  const StageTruth stage = draw::undeclared_bounds(trial.problem, trial.inputs, 2);
  const TensorTruth& truth = stage.tensors[0];
  const Semantics semantics = semantics_preset(preset, trial.problem.quant);
  const StageTruth bits = draw::gemm_bits_of(trial.problem, faulty(trial, fault), semantics, 2);
  const auto got = bits.tensors[0].bits.as<std::uint16_t>();
  std::int64_t outside = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float value = fault == "zero" ? 0 : decode_bf16(got[i]);
    const float low = hard ? truth.low[i] : truth.probable_low[i],
                high = hard ? truth.high[i] : truth.probable_high[i];
    outside += value < low || value > high;
  }
  return double(outside) / double(got.size());
}

// Catches: a bound without power. Each fault is seen by a good part of the outputs it reaches, so that a tile
// of 128 x 8 outputs cannot hide it; the hard bound alone sees next to nothing of them.
TEST(ProbableBound, SeesSmallFaults) {
  struct Power {
    const char* fault;
    double block, tensor;  // least share of outputs
  };
  constexpr Power kPowers[] = {{"32 k's missing", 0.6, 0.4},
                               {"128 k's missing", 0.8, 0.6},
                               {"one block's scale doubled", 0.8, -1},
                               {"zero", 0.95, 0.9}};
  const draw::GemmTrial block = normal_gemm(QuantKind::block128, 4096),
                        tensor = normal_gemm(QuantKind::tensor_static, 4096);
  for (const Power& power : kPowers) {
    const double by_block = caught(block, power.fault, "moeproof", false);
    EXPECT_GE(by_block, power.block) << power.fault;
    std::printf("[ figure   ] K 4096, %s: %.2f outside (hard bound: %.2f) with block scales", power.fault,
                by_block, caught(block, power.fault, "moeproof", true));
    if (power.tensor > 0) {
      const double by_tensor = caught(tensor, power.fault, "vllm-triton-swap", false);
      EXPECT_GE(by_tensor, power.tensor) << power.fault;
      std::printf(", %.2f (%.2f) with one scale a tensor", by_tensor,
                  caught(tensor, power.fault, "vllm-triton-swap", true));
    }
    std::printf("\n");
  }
}

// Catches: a walk that depends on the instruction set beyond its own roundings.
TEST(ProbableBound, EveryInstructionSetGivesTheSame) {
  std::vector<ChainWalk::Reach> reaches;
  for (const DgemmPath path : available_dgemm_paths()) {
    ChainWalk walk(1, 8, 28, path);
    draw::Random random(3);
    std::vector<double> sum(8), size(8), signs(8), largest(8, 1.0);
    for (int grain = 0; grain < 64; ++grain) {
      for (std::size_t j = 0; j < 8; ++j) {
        sum[j] = draw::number(random, draw::Flavour::normal);
        size[j] = std::fabs(sum[j]) + 3, signs[j] = double(random() % 9) - 4;
      }
      walk.step(0, sum.data(), size.data(), 2.0, largest.data());
      walk.count_signs(signs.data());
    }
    walk.close(2048, 64, nullptr);
    reaches.push_back(walk.reach(5));
  }
  for (const ChainWalk::Reach& reach : reaches) {
    EXPECT_NEAR(reach.below, reaches[0].below, 1e-6 * reaches[0].below);
    EXPECT_NEAR(reach.above, reaches[0].above, 1e-6 * reaches[0].above);
  }
}

}  // namespace
}  // namespace moe::reference
