#include "harness/judge.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/reference_executor.hpp"
#include "harness/run_problem.hpp"

namespace moe::harness {
namespace {

/// A small layer, right by construction: the reference's own bits stand for a kernel's output.
struct Layer {
  Case c;
  TensorSet inputs, outputs;
  JudgePlan plan;

  explicit Layer(Layout layout = Layout::swap_ab, DataMode data = DataMode::normal) {
    Problem& p = c.problem;
    p.shape = {.tokens = 24, .hidden = 256, .intermediate = 256, .experts = 4, .top_k = 2};
    p.data = data;
    c.choice.layout = layout;
    const Routing routing = make_routing(p.routing, p.shape, p.seed);
    c.choice = resolve_tiles(c.choice, c.problem, routing.load(0, 4));
    inputs = make_inputs(p, c.choice, routing, 1);
    const auto executor = make_reference_executor(1);
    auto session = executor->open(c).session;
    session->bind(inputs);
    outputs = session->run(device::RunMode::eager).outputs;
    plan.semantics = declared_semantics(*executor, c);
  }
  Verdict verdict() const { return judge(c, inputs, outputs, plan); }
  std::uint16_t& bf16(const char* tensor, std::int64_t row, std::int64_t column) {
    Tensor& t = outputs.at(tensor);
    return t.as<std::uint16_t>()[std::size_t(row * t.dim(1) + column)];
  }
};

// The right output passes in every layout and data mode, by bits and by intervals.
TEST(Judge, TheReferencePasses) {
  for (const Layout layout : {Layout::swap_ab, Layout::normal_mma, Layout::normal_wgmma}) {
    for (const DataMode data : {DataMode::normal, DataMode::exact, DataMode::nasty}) {
      Layer l(layout, data);
      EXPECT_EQ(l.verdict().correctness, Correctness::passed)
          << name(layout) << name(data) << l.verdict().reason;
      EXPECT_EQ(l.verdict().coverage, 1);
      l.plan.by_interval = true;
      EXPECT_EQ(l.verdict().correctness, Correctness::passed)
          << name(layout) << name(data) << l.verdict().reason;
    }
  }
}

// One flipped bit of any stage is a failure of that stage, at its row and column.
TEST(Judge, OneFlippedBitOfAnyStage) {
  for (const char* stage : {"gemm1", "gemm2", "out"}) {
    Layer l;
    l.bf16(stage, 5, 130) ^= 1;
    const Verdict v = l.verdict();
    ASSERT_EQ(v.correctness, Correctness::failed) << stage;
    EXPECT_EQ(v.worst->stage, stage);
    EXPECT_EQ(v.worst->row, 5);
    EXPECT_EQ(v.worst->column, 130);
    if (std::string(stage) != "out") {
      EXPECT_EQ(v.worst->expert, l.outputs.at("topk_ids").as<std::int32_t>()[5]);
    }
  }
}

// Scales and codes are judged too: a wrong one would otherwise hide behind the stage that reads it.
TEST(Judge, AWrongCodeOrScale) {
  for (const char* stage : {"x_codes", "x_scale", "act_codes", "act_scale"}) {
    Layer l;
    l.outputs.at(stage).data()[4] ^= std::byte{1};
    EXPECT_EQ(l.verdict().correctness, Correctness::failed) << stage;
    EXPECT_EQ(l.verdict().worst->stage, stage);
  }
}

TEST(Judge, AWrongExpertOrWeight) {
  Layer l;
  std::swap(l.outputs.at("topk_ids").as<std::int32_t>()[0], l.outputs.at("topk_ids").as<std::int32_t>()[1]);
  EXPECT_EQ(l.verdict().correctness, Correctness::failed);
  Layer m;
  m.outputs.at("topk_ids").as<std::int32_t>()[3] = 99;
  EXPECT_EQ(m.verdict().correctness, Correctness::failed);
  Layer n;
  n.outputs.at("topk_weights").as<float>()[3] *= 1.01f;
  n.plan.semantics.reset();
  EXPECT_EQ(n.verdict().correctness, Correctness::failed);
}

// An all-zero output is wrong; a layer whose right answer is zero proves nothing.
TEST(Judge, AllZero) {
  Layer l;
  for (const char* stage : {"gemm1", "gemm2", "out"})
    std::memset(l.outputs.at(stage).data(), 0, l.outputs.at(stage).bytes());
  EXPECT_EQ(l.verdict().correctness, Correctness::failed);
}

TEST(Judge, AZeroLayerIsMistrusted) {
  Layer l;
  std::memset(l.inputs.at("hidden").data(), 0, l.inputs.at("hidden").bytes());
  auto session = make_reference_executor(1)->open(l.c).session;
  session->bind(l.inputs);
  l.outputs = session->run(device::RunMode::eager).outputs;
  EXPECT_EQ(l.verdict().correctness, Correctness::mistrusted) << l.verdict().reason;
}

// A kernel that shows only its result and declares its Semantics is judged to the bit of the whole layer.
TEST(Judge, WholeLayerOnly) {
  Layer l;
  TensorSet only;
  only.add(l.outputs.at("out"));
  l.outputs = only;
  EXPECT_EQ(l.verdict().correctness, Correctness::passed) << l.verdict().reason;
  l.bf16("out", 3, 77) ^= 1;
  EXPECT_EQ(l.verdict().correctness, Correctness::failed);
}

// A small budget judges a part and says so; what it judges still fails.
TEST(Judge, TheBudgetIsTold) {
  Layer l;
  l.plan.budget = 3e6;
  EXPECT_LT(l.verdict().coverage, 1);
  EXPECT_EQ(l.verdict().correctness, Correctness::passed);
  std::memset(l.outputs.at("gemm1").data(), 0, l.outputs.at("gemm1").bytes());
  EXPECT_EQ(l.verdict().correctness, Correctness::failed);
}

TEST(Judge, AMissingStageIsNamed) {
  Layer l;
  TensorSet some;
  for (const Tensor& t : l.outputs.all())
    if (t.name() != "x_scale") some.add(t);
  l.outputs = some;
  EXPECT_EQ(l.verdict().correctness, Correctness::failed);
  EXPECT_NE(l.verdict().reason.find("x_scale"), std::string::npos);
}

}  // namespace
}  // namespace moe::harness
