// The three paths of the built-in layer on the emulated SM: the same bits, by different ways.
#include "device/session/layer_path.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernels/variants.hpp"
#include "session_check.hpp"

namespace moe::device::test {
namespace {

constexpr QuantScheme kSchemes[] = {{QuantKind::tensor_static},
                                    {QuantKind::tensor_dynamic},
                                    {QuantKind::token_channel},
                                    {QuantKind::block128},
                                    {QuantKind::block128, ScaleFormat::ue8m0}};

Case layer_case(LayerPath path, QuantScheme quant, Layout layout, TileConfig tile) {
  Case c;
  MoeShape& s = c.problem.shape;
  s.tokens = 9;
  s.experts = 6;
  s.top_k = 3;
  s.hidden = quant.block() ? 256 : 208;
  s.intermediate = quant.block() ? 128 : 72;
  c.problem.quant = quant;
  c.problem.seed = 11;
  c.choice.kernel = kernel_name(path);
  c.choice.layout = layout;
  c.choice.tile = tile;
  c.choice.tile_down = {layout == Layout::swap_ab ? 8 : 64, 128};
  return c;
}

RunResult run_layer(const Case& c, TensorSet& inputs) {
  const auto executor = exact_executor();
  Opened opened = executor->open(c);
  if (!opened.session) throw std::runtime_error(opened.refusal);
  inputs = make_inputs(c.problem, opened.session->resolved().choice, routing_of(c.problem), 1);
  opened.session->bind(inputs);
  return opened.session->run(RunMode::eager);
}

class PathOfEveryScheme : public testing::TestWithParam<std::tuple<int, int>> {};

// Would catch: a pair taken for its token, scales in the order of the codes' rows, a stage of one path fed
// with a buffer that another path fills.
TEST_P(PathOfEveryScheme, EqualsTheReferenceStageByStage) {
  const auto [scheme, path] = GetParam();
  for (const Layout layout : {Layout::swap_ab, Layout::normal_wgmma}) {
    const Case c =
        layer_case(LayerPath(path), kSchemes[scheme], layout, {layout == Layout::swap_ab ? 16 : 64, 128});
    SCOPED_TRACE(to_line(c));
    TensorSet inputs;
    const RunResult result = run_layer(c, inputs);
    LayerCheck(c, inputs, result.outputs).all();
    EXPECT_TRUE(result.reports.empty()) << result.reports[0];
  }
}
INSTANTIATE_TEST_SUITE_P(SchemesAndPaths, PathOfEveryScheme,
                         testing::Combine(testing::Range(0, 5), testing::Range(1, 3)));

// Would catch: a gathered kernel whose tile, ring or box is not the sorted one's, in any tile that is built,
// under any order of arrivals; rows of another expert in a tile's tail.
TEST(LayerPath, GatheredRowsGiveTheBitsOfSortedOnes) {
  for (const Variant& v : kVariants) {
    if (v.kind != KernelKind::gathered_gemm) continue;
    const Layout layout = v.gemm.swap_ab() ? Layout::swap_ab : Layout::normal_wgmma;
    const QuantScheme quant = kSchemes[v.gemm.block_scales() ? 3 : v.index % 3];
    Case c = layer_case(LayerPath::scatter, quant, layout, {v.gemm.block_m, v.gemm.block_n});
    c.problem.shape.tokens = v.index * 37 % 97 + 1;
    c.problem.seed = std::uint64_t(v.index);
    SCOPED_TRACE(to_line(c));
    TensorSet inputs;
    const RunResult sorted = run_layer(c, inputs);
    c.choice.kernel = kernel_name(LayerPath::fused);
    const RunResult gathered = run_layer(c, inputs);
    EXPECT_TRUE(gathered.reports.empty()) << gathered.reports[0];
    for (const char* stage : {"x_codes", "x_scale", "gemm1", "act_codes", "gemm2", "out"}) {
      const Tensor &a = sorted.outputs.at(stage), &b = gathered.outputs.at(stage);
      EXPECT_TRUE(std::equal(a.data(), a.data() + a.bytes(), b.data(), b.data() + b.bytes())) << stage;
    }
  }
}

// Would catch: a gathered kernel under foreign experts, whose pairs have no sorted row.
TEST(LayerPath, RanksOfAnExpertParallelLayer) {
  for (const LayerPath path : {LayerPath::fused, LayerPath::grouped}) {
    Case c = layer_case(path, kSchemes[3], Layout::swap_ab, {8, 64});
    c.problem.shape.ep = 3;
    c.problem.rank = 2;
    TensorSet inputs;
    const RunResult result = run_layer(c, inputs);
    LayerCheck(c, inputs, result.outputs).all();
    EXPECT_TRUE(result.reports.empty()) << result.reports[0];
  }
}

// Would catch: a path that is taken silently where its kernel is not built, or for an op that it is not.
TEST(LayerPath, IsRefusedWhereItIsNotBuilt) {
  Case c = layer_case(LayerPath::fused, kSchemes[3], Layout::normal_mma, {16, 128});
  EXPECT_NE(exact_executor()->open(c).refusal.find("swap_ab and normal_wgmma have"), std::string::npos);
  c.choice.layout = Layout::swap_ab;
  c.choice.tile = {8, 128};
  c.problem.op = Op::quantize;
  EXPECT_NE(exact_executor()->open(c).refusal.find("a path of moe_layer"), std::string::npos);
}

}  // namespace
}  // namespace moe::device::test
