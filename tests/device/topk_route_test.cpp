// The router kernel against fixtures' route(), to the bit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "device/session/launches.hpp"
#include "device/session/stage_params.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

constexpr RouterKind kRouters[] = {RouterKind::softmax,       RouterKind::softmax_grouped,
                                   RouterKind::sigmoid_bias,  RouterKind::sigmoid_grouped,
                                   RouterKind::sqrt_softplus, RouterKind::top1_sigmoid,
                                   RouterKind::topk_softmax};

struct Trial {
  RouterSpec router;
  MoeShape shape;
  std::vector<float> logits, bias;
};

Routing routed_by_kernel(Machine& machine, const Trial& t) {
  TensorSet inputs;
  Tensor logits("router_logits", DType::f32, {t.shape.tokens, t.shape.experts}),
      bias("router_bias", DType::f32, {t.shape.experts});
  std::memcpy(logits.data(), t.logits.data(), logits.bytes());
  std::memcpy(bias.data(), t.bias.data(), bias.bytes());
  inputs.add(std::move(logits));
  inputs.add(std::move(bias));
  Case c;
  c.problem.shape = t.shape;
  c.problem.routing.router = t.router;
  const TopkRouteParams p = topk_params(machine, c, inputs);
  launch_topk(machine, p, false);
  machine.synchronize();
  Routing routing;
  routing.tokens = t.shape.tokens;
  routing.top_k = t.shape.top_k;
  routing.ids = download_array<std::int32_t>(machine, Address(p.ids), t.shape.pairs());
  routing.weights = download_array<float>(machine, Address(p.weights), t.shape.pairs());
  return routing;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

/// Logits drawn from a few values, so that ties are common, with NaN, infinities and zeros of both signs
/// among them.
float drawn_logit(std::uint64_t seed, std::uint64_t i, int style) {
  const float x = 8.0f * noise_float(seed, i);
  switch (style) {
    case 0:
      return x;
    case 1:
      return std::round(x) * 0.5f;  // ties
    case 2:
      return noise(seed, i + 7'000'000) % 5 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::round(x);
    default:
      return noise(seed, i + 7'000'000) % 4 == 0   ? -0.0f
             : noise(seed, i + 8'000'000) % 4 == 0 ? 0.0f
                                                   : -std::fabs(x);
  }
}

Trial drawn_trial(RouterKind kind, std::uint64_t seed) {
  constexpr int kExperts[] = {1, 8, 16, 64, 128, 160, 256, 512};
  Trial t;
  t.router.kind = kind;
  t.shape.experts = kExperts[noise(seed, 1) % 8];
  t.shape.tokens = 1 + noise(seed, 2) % 6;
  const bool grouped = kind == RouterKind::softmax_grouped || kind == RouterKind::sigmoid_grouped;
  if (grouped && t.shape.experts >= 8) {
    t.router.groups = 1 << noise(seed, 3) % 4;
    t.router.topk_groups = 1 + int(noise(seed, 4) % std::uint32_t(t.router.groups));
  }
  const int reachable = t.shape.experts / t.router.groups * t.router.topk_groups;
  t.shape.top_k = kind == RouterKind::top1_sigmoid ? 1 : std::min(reachable, 1 + int(noise(seed, 5) % 22));
  t.router.renormalise = noise(seed, 6) % 2;
  t.router.scale = noise(seed, 7) % 2 ? 2.5 : 1.0;
  const int style = int(noise(seed, 8) % 4);
  for (std::int64_t i = 0; i < t.shape.tokens * t.shape.experts; ++i)
    t.logits.push_back(drawn_logit(seed + 1, std::uint64_t(i), style));
  for (int e = 0; e < t.shape.experts; ++e)
    t.bias.push_back(noise(seed, 9) % 2 ? 0.25f * std::round(4 * noise_float(seed + 2, std::uint64_t(e)))
                                        : 0.0f);
  return t;
}

// Would catch: a wrong tie rule, NaN chosen over a number, a bias that leaks into the weights, a group rule
// that differs, a sum in another order, an exp that differs in one bit.
RC_GTEST_PROP(TopkRoute, EqualsTheFixturesRouter, ()) {
  const RouterKind kind =
      *rc::gen::elementOf(std::vector<RouterKind>(std::begin(kRouters), std::end(kRouters)));
  const Trial t = drawn_trial(kind, *rc::gen::inRange<std::uint64_t>(1, 1'000'000));
  const auto machine = emulated_machine();
  const Routing got = routed_by_kernel(*machine, t);
  const Routing want = route(t.router, t.shape, t.logits, t.bias);
  RC_ASSERT(got.ids == want.ids);
  RC_ASSERT(same_bits(got.weights, want.weights));
  RC_ASSERT(machine->take_reports().empty());
}

// Would catch: a row of nothing but NaN or -infinity that selects an expert twice or leaves a slot unwritten.
TEST(TopkRoute, RowsWithNothingToSelectBy) {
  for (RouterKind kind : kRouters) {
    Trial t;
    t.router.kind = kind;
    t.shape.experts = 16;
    t.shape.tokens = 1;
    t.shape.top_k = kind == RouterKind::top1_sigmoid ? 1 : 4;
    t.bias.assign(16, 0.0f);
    t.logits.assign(16, std::numeric_limits<float>::quiet_NaN());
    const auto machine = emulated_machine();
    const Routing got = routed_by_kernel(*machine, t), want = route(t.router, t.shape, t.logits, t.bias);
    EXPECT_EQ(got.ids, want.ids) << name(kind);
    EXPECT_TRUE(same_bits(got.weights, want.weights)) << name(kind);
  }
}

}  // namespace
}  // namespace moe::device
