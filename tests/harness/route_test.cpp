// Routing between backends: what is best, what a rule costs, what a file of others' times says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/route/peers.hpp"
#include "harness/route/report.hpp"

namespace moe::harness {
namespace {

/// A point of the three paths with these times, predicted and measured.
RoutePoint point(std::int64_t tokens, std::vector<double> predicted, std::vector<double> measured = {}) {
  RoutePoint p;
  p.label = std::to_string(tokens) + " tokens";
  p.problem.shape.tokens = tokens;
  p.problem.shape.ep = 1;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    p.arms.push_back({path_backends()[i].first, {}, predicted[i], {}});
    if (!measured.empty()) p.arms.back().measured = measured[i];
  }
  return p;
}

const Policy& named(const std::vector<Policy>& all, const std::string& name) {
  return *std::ranges::find_if(all, [&](const Policy& p) { return p.name == name; });
}

// Would catch: regret against the wrong arm, measured regret by predicted times, a worst case that is a mean.
TEST(Route, RegretIsWhatAPickTakesMoreThanTheBest) {
  const std::vector<RoutePoint> points{point(1, {1, 2, 4}, {2, 1, 4}), point(2, {2, 1, 4}, {3, 1, 2})};
  const std::vector<Policy> all = policies(points);
  const Regret by_model = regret(points, named(all, "predicted best"), TimeOf::measured);
  EXPECT_DOUBLE_EQ(by_model.mean, 0.5);  // 2 / 1 and 1 / 1
  EXPECT_DOUBLE_EQ(by_model.worst, 1.0);
  EXPECT_DOUBLE_EQ(regret(points, named(all, "predicted best"), TimeOf::predicted).worst, 0.0);
  EXPECT_DOUBLE_EQ(regret(points, named(all, "always grouped"), TimeOf::measured).mean, 2.0);
  EXPECT_DOUBLE_EQ(regret(points, named(all, "always scatter"), TimeOf::measured).mean, 1.5);
}

// Would catch: a switch for a gain that the model does not know, and a default taken from measured times.
TEST(Route, SwitchesOnlyWhereTheModelDecides) {
  const std::vector<RoutePoint> points{point(1, {1.1, 1, 4}, {1, 2, 4}), point(2, {1, 2, 4}, {1, 2, 4}),
                                       point(3, {2, 1, 4}, {2, 1, 4})};
  const Policy decided = policies(points)[1];
  EXPECT_EQ(decided.name, "predicted where decided, else fused");  // 0, 1, 0 beside 0.1, 0, 1
  EXPECT_EQ(decided.pick(points[0]), "fused");
  EXPECT_EQ(decided.pick(points[1]), "scatter");
}

// Would catch: an order of vLLM's oracle turned round, and a pull request that changes more than static
// scales.
TEST(Route, FixedPoliciesAreThoseOfTheirSources) {
  RoutePoint p = point(1, {1, 2, 3});
  const auto pick = [&](const char* policy) { return named(policies({p}), policy).pick(p); };
  p.problem.quant.kind = QuantKind::block128;
  EXPECT_EQ(pick("vLLM's order"), "fused");
  p.problem.shape.ep = 8;
  EXPECT_EQ(pick("vLLM's order"), "grouped");
  EXPECT_EQ(pick("vLLM PR 50040"), "grouped");
  p.problem.quant.kind = QuantKind::tensor_static;
  EXPECT_EQ(pick("vLLM's order"), "grouped");
  EXPECT_EQ(pick("vLLM PR 50040"), "fused");
  p.problem.quant.kind = QuantKind::tensor_dynamic;
  EXPECT_EQ(pick("vLLM's order"), "fused");
}

// Would catch: a rule whose branches are off by a point, or one by predictions where times were measured.
TEST(Route, TheRuleFollowsTheCrossovers) {
  RouteReport report{"m", "card", {{point(1, {1, 2, 4}), point(8, {1, 2, 4}), point(64, {3, 2, 4})}}, {}};
  EXPECT_EQ(
      route_rule(report),
      "# predicted by moeproof route: m, card\ndef backend(tokens):\n    if tokens <= 8:\n        return "
      "\"scatter\"\n    return \"fused\"\n");
  ASSERT_EQ(crossovers(report.sweeps[0], TimeOf::predicted).size(), 1u);
  EXPECT_EQ(only_winner(report.sweeps[0], TimeOf::predicted), "");
  report.sweeps[0] = {point(1, {1, 2, 4}, {9, 1, 8}), point(2, {1, 2, 4}, {9, 1, 8})};
  EXPECT_NE(route_rule(report).find("# measured"), std::string::npos);
  EXPECT_EQ(only_winner(report.sweeps[0], TimeOf::measured), "fused");
  EXPECT_NE(route_table(report).find("nothing to route"), std::string::npos);
}

// Would catch: a path that is not predicted by its own kernel, and one that pays for a copy it does not make.
TEST(Route, ThePermutingCopyIsNeverFree) {
  for (const char* name : {"deepseek-v3", "nemotron-3-nano", "mixtral-8x7b"}) {
    Problem p;
    const ModelPreset model = load_model(name);
    p.shape = model.shape, p.quant = model.quant, p.routing.router = model.router;
    for (const std::int64_t tokens : {1, 64, 2048}) {
      p.shape.tokens = tokens;
      const RoutePoint at = path_point(p, routing_of(p), load_hardware("h200"));
      ASSERT_EQ(at.arms.size(), 3u);
      EXPECT_GT(at.arm("grouped")->predicted, at.arm("scatter")->predicted) << name << " " << tokens;
      EXPECT_EQ(at.arm("fused")->choice.kernel, "moeproof_fused");
    }
  }
}

class PeerFile : public testing::Test {
 protected:
  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) / ("route_peers_" + std::to_string(::getpid()) + ".csv");
  RouteReport read(const std::string& rows) {
    std::ofstream(file_) << "run,kind,model,T,peer,us_median,note\n" << rows;
    return peer_report(file_.string(), load_hardware("h200"));
  }
};

// Would catch: forced or retuned kernels and those of other GEMMs taken for a choice, runs mixed into one
// point.
TEST_F(PeerFile, ShippedKernelsOfOneGemmAreOnePoint) {
  const RouteReport report = read(
      "run1,gemm1,dsv3_tp8,16,vllm_triton,89,cfg=16/128/128/16/4/3 swap=1 naive=0\n"
      "run1,gemm1,dsv3_tp8,16,trt_default,107,\"[128, 16, 8, 152928, True]\"\n"
      "run1,gemm1,dsv3_tp8,16,trt_swap,106,\"[128, 16, 8, 152928, True]\"\n"
      "run1,gemm2,dsv3_tp8,16,dg_masked,60,\"['masked', 64, 128, 2, False, 8]\"\n"
      "run2,gemm1,dsv3_tp8,16,vllm_triton,90,cfg=16/128/128/16/4/3 swap=1 naive=0\n"
      "run2,layer,dsv3_tp8,16,vllm_triton,150,swap=1 naive=0\n");
  ASSERT_EQ(report.points().size(), 3u);
  const RoutePoint& first = report.sweeps[0][0];
  EXPECT_EQ(first.arms.size(), 2u);
  EXPECT_DOUBLE_EQ(*first.arm("trt_default")->measured, 107e-6);
  EXPECT_EQ(best(first, TimeOf::measured).backend, "vllm_triton");
  EXPECT_EQ(report.skipped.size(), 2u);
}

// Would catch: a crash or a silent skip where the file is not one of peers, or holds a kernel twice.
TEST_F(PeerFile, WhatCannotBeRoutedIsSaid) {
  EXPECT_THROW(read(""), BadInput);
  EXPECT_THROW(read("run1,gemm1,dsv3_tp8,x,vllm_triton,89,cfg=16/128/128/16/4/3 swap=1\n"), BadInput);
  EXPECT_THROW(read("run1,gemm1,dsv3_tp8,16,dg_masked,60,a\nrun1,gemm1,dsv3_tp8,16,dg_masked,61,a\n"),
               BadInput);
}

}  // namespace
}  // namespace moe::harness
