#include "reference/topk.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "fixtures/problem/routing.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

struct Drawn {
  Problem problem;
  TensorSet inputs, outputs;
};

/// Logits of deviation 2 around `centre`.
Drawn draw_routing(std::mt19937_64& random, float centre = 0) {
  Drawn drawn;
  Problem& problem = drawn.problem;
  problem.op = Op::topk;
  problem.shape = {.tokens = 8, .hidden = 128, .intermediate = 128, .experts = 32, .top_k = 4};
  RouterSpec& router = problem.routing.router;
  router.kind = RouterKind(random() % 7);
  if (router.kind == RouterKind::top1_sigmoid) problem.shape.top_k = 1;
  router.groups = 4, router.topk_groups = 2, router.renormalise = random() % 2, router.scale = 2.5;
  std::normal_distribution<float> normal(0, 2);
  Tensor logits("router_logits", DType::f32, {8, 32}), bias("router_bias", DType::f32, {32});
  for (float& x : logits.as<float>()) x = centre + normal(random);
  const bool biased = router.kind == RouterKind::sigmoid_bias || router.kind == RouterKind::sigmoid_grouped ||
                      router.kind == RouterKind::sqrt_softplus;
  if (biased)
    for (float& x : bias.as<float>()) x = 0.1f * normal(random);
  drawn.inputs.add(std::move(logits));
  drawn.inputs.add(std::move(bias));
  const StageTruth bits = topk_truth(problem, {drawn.inputs, drawn.outputs}, all_rows(8));
  for (const TensorTruth& truth : bits.tensors) {
    Tensor copy(truth.tensor, truth.type, truth.bits.shape());
    std::copy_n(truth.bits.data(), truth.bits.bytes(), copy.data());
    drawn.outputs.add(std::move(copy));
  }
  return drawn;
}

std::vector<TopkRow> judge(const Drawn& drawn) {
  return judge_topk(drawn.problem, {drawn.inputs, drawn.outputs}, all_rows(drawn.problem.shape.tokens), 2);
}

// Catches: a rule of a router in double that is not the rule of fixtures; a tolerance too tight for fp32.
RC_GTEST_PROP(Topk, AcceptsTheRouterItself, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const Drawn drawn = draw_routing(random);
  for (const TopkRow& row : judge(drawn)) {
    if (!row.right) RC_LOG() << row.wrong;
    RC_ASSERT(row.right && !row.tied);
  }
}

// Catches: a guard against a sum of zero that is not the contract's: scores about as small as the 1e-20 that
// the sigmoids' sum is raised by.
RC_GTEST_PROP(Topk, AcceptsTheRouterWhereScoresAreNextToNothing, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const Drawn drawn = draw_routing(random, -46);
  for (const TopkRow& row : judge(drawn)) {
    if (!row.right) RC_LOG() << row.wrong;
    RC_ASSERT(row.right && !row.tied);
  }
}

// Catches: a judge that sees nothing. The least chosen expert of one token is replaced by the worst of all; a
// weight is off by 1e-4; two experts are swapped.
RC_GTEST_PROP(Topk, RejectsAWrongExpertAndAWrongWeight, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  Drawn drawn = draw_routing(random);
  const std::size_t token = random() % 8, k = std::size_t(drawn.problem.shape.top_k);
  auto ids = drawn.outputs.at("topk_ids").as<std::int32_t>().subspan(token * k, k);
  auto weights = drawn.outputs.at("topk_weights").as<float>().subspan(token * k, k);
  switch (k > 1 ? random() % 3 : random() % 2) {
    case 0: {
      const auto logits = drawn.inputs.at("router_logits").as<float>().subspan(token * 32, 32);
      const auto bias = drawn.inputs.at("router_bias").as<float>();
      std::int32_t worst = 0;
      for (std::int32_t e = 0; e < 32; ++e)
        if (logits[e] + 100 * bias[e] < logits[worst] + 100 * bias[worst]) worst = e;
      RC_PRE(std::find(ids.begin(), ids.end(), worst) == ids.end());
      RC_PRE(logits[worst] < -1 && bias[worst] <= 0);
      ids[k - 1] = worst;
      break;
    }
    case 1:
      weights[k - 1] *= 1.0001f;
      break;
    default:
      std::swap(ids[0], ids[k - 1]);
      break;
  }
  RC_ASSERT(!judge(drawn)[token].right);
}

// Catches: a judge that insists on the lower index where scores are equal.
TEST(Topk, ATieMayGoEitherWay) {
  std::mt19937_64 random(1);
  Drawn drawn = draw_routing(random);
  drawn.problem.routing.router.kind = RouterKind::softmax;
  drawn.problem.shape.top_k = 1;
  for (float& x : drawn.inputs.at("router_logits").as<float>()) x = 1;
  TensorSet outputs;
  outputs.add(Tensor("topk_ids", DType::i32, {8, 1}));
  outputs.add(Tensor("topk_weights", DType::f32, {8, 1}));
  for (auto& id : outputs.at("topk_ids").as<std::int32_t>()) id = 17;
  const float weight = (drawn.problem.routing.router.renormalise ? 1.0f : 1.0f / 32) * 2.5f;
  for (float& w : outputs.at("topk_weights").as<float>()) w = weight;
  for (const TopkRow& row : judge_topk(drawn.problem, {drawn.inputs, outputs}, all_rows(8), 1)) {
    EXPECT_TRUE(row.right) << row.wrong;
    EXPECT_TRUE(row.tied);
  }
}

}  // namespace
}  // namespace moe::reference
