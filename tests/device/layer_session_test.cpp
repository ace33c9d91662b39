// The whole layer on the emulated SM: every stage equals reference's exact computation of it, to the bit.
#include <gtest/gtest.h>

#include "session_check.hpp"

namespace moe::device::test {
namespace {

struct Trial {
  QuantScheme quant;
  Layout layout = Layout::swap_ab;
  int block_m = 8, block_m_down = 8;
};

Case small_case(const Trial& trial) {
  Case c;
  MoeShape& s = c.problem.shape;
  s.tokens = 5;
  s.experts = 8;
  s.top_k = 2;
  // block scales need multiples of 128; the other schemes take rows that no 16 bytes divide
  s.hidden = trial.quant.block() ? 256 : 200;
  s.intermediate = trial.quant.block() ? 128 : 72;
  c.problem.quant = trial.quant;
  c.problem.seed = 7;
  c.choice.layout = trial.layout;
  c.choice.tile = {trial.block_m, 128};
  c.choice.tile_down = {trial.block_m_down, 128};
  return c;
}

RunResult run_case(const Case& c, TensorSet& inputs, RunMode mode = RunMode::eager) {
  const auto executor = exact_executor();
  Opened opened = executor->open(c);
  EXPECT_TRUE(opened.session) << opened.refusal;
  if (!opened.session) return {};
  inputs = make_inputs(c.problem, opened.session->resolved().choice, routing_of(c.problem), 1);
  opened.session->bind(inputs);
  return opened.session->run(mode);
}

RunResult check_layer(const Case& c) {
  SCOPED_TRACE(to_line(c));
  TensorSet inputs;
  RunResult result = run_case(c, inputs);
  if (!result.outputs.has("out")) return result;
  const Routing want = routing_of(c.problem);
  EXPECT_EQ(values<std::int32_t>(result.outputs, "topk_ids"), want.ids);
  EXPECT_EQ(values<float>(result.outputs, "topk_weights"), want.weights);
  LayerCheck(c, inputs, result.outputs).all();
  EXPECT_TRUE(result.reports.empty()) << result.reports[0];
  return result;
}

constexpr QuantScheme kSchemes[] = {{QuantKind::tensor_static},
                                    {QuantKind::tensor_dynamic},
                                    {QuantKind::token_channel},
                                    {QuantKind::block128},
                                    {QuantKind::block128, ScaleFormat::ue8m0}};

class LayerOfEveryKind : public testing::TestWithParam<std::tuple<int, int>> {};

// Would catch: a stage fed with the wrong buffer, stride, scale or row; a launch that a layout or scheme
// needs and another does not; Semantics that do not say what the kernels do.
TEST_P(LayerOfEveryKind, EqualsTheReferenceStageByStage) {
  const auto [scheme, layout] = GetParam();
  constexpr int kBlocks[3][2] = {{16, 32}, {64, 64}, {16, 32}};  // normal_mma, normal_wgmma, swap_ab
  check_layer(small_case({kSchemes[scheme], Layout(layout), kBlocks[layout][0], kBlocks[layout][1]}));
}

INSTANTIATE_TEST_SUITE_P(SchemesAndLayouts, LayerOfEveryKind,
                         testing::Combine(testing::Range(0, 5), testing::Range(0, 3)));

// Would catch: foreign experts computed or added, an expert numbered globally where it should be local.
TEST(LayerSession, RanksOfAnExpertParallelLayer) {
  for (int rank : {0, 3}) {
    Case c = small_case({kSchemes[3]});
    c.problem.shape.ep = 4;
    c.problem.rank = rank;
    check_layer(c);
    c = small_case({kSchemes[1], Layout::normal_mma, 16, 16});
    c.problem.shape.ep = 4;
    c.problem.rank = rank;
    check_layer(c);
  }
}

// Would catch: a bias left out or added before scaling, an activation with a gate where there is none, the
// routing weight applied twice or nowhere.
TEST(LayerSession, BiasUngatedAndWeightOnInput) {
  Case c = small_case({kSchemes[2]});
  c.problem.shape.bias = true;
  check_layer(c);
  c = small_case({kSchemes[0]});
  c.problem.shape.activation = Activation::relu2;
  check_layer(c);
  c = small_case({kSchemes[2]});
  c.problem.shape.top_k = 1;
  c.problem.shape.weight_on_input = true;
  c.problem.routing.router.kind = RouterKind::top1_sigmoid;
  check_layer(c);
  c = small_case({kSchemes[3]});
  c.problem.shape.activation = Activation::silu_mul_clamped;
  c.problem.shape.limit = 7;
  c.problem.shape.alpha = 1.702;
  c.problem.shape.beta = 1;
  check_layer(c);
}

// Would catch: many slots a token, one token, a grouped router, automatic tiles that stay open.
TEST(LayerSession, ManySlotsOneTokenAutomaticTile) {
  Case c = small_case({kSchemes[3]});
  c.problem.shape.tokens = 1;
  c.problem.shape.experts = 32;
  c.problem.shape.top_k = 22;
  c.choice.tile = c.choice.tile_down = {};
  check_layer(c);
  c = small_case({kSchemes[3]});
  c.problem.routing.router = {RouterKind::sigmoid_grouped, 4, 2, true, 2.5};
  check_layer(c);
}

// Would catch: a launch or a write for an idle rank.
TEST(LayerSession, NoTokensNoLaunch) {
  Case c = small_case({kSchemes[3]});
  c.problem.shape.tokens = 0;
  TensorSet inputs;
  const RunResult result = run_case(c, inputs);
  EXPECT_TRUE(result.reports.empty());
  EXPECT_EQ(result.counts, Counts{});
  EXPECT_EQ(result.outputs.at("out").shape(), (std::vector<std::int64_t>{0, 256}));
}

// Would catch: counts that include other kernels, a graph that differs from single launches, state left from
// the run before.
TEST(LayerSession, CountsAndRepeatedRuns) {
  const Case c = small_case({kSchemes[3]});
  const auto executor = exact_executor();
  Opened opened = executor->open(c);
  ASSERT_TRUE(opened.session) << opened.refusal;
  const TensorSet inputs = make_inputs(c.problem, routing_of(c.problem), 1);
  opened.session->bind(inputs);
  const RunResult first = opened.session->run(RunMode::eager), second = opened.session->run(RunMode::graph);
  const ExpertLoad load = routing_of(c.problem).load(0, 8);
  std::int64_t blocks = 0;
  for (std::int64_t rows : load.rows) blocks += (rows + 7) / 8;
  // up_rows 256 = 2 panels of K 256 = 2 k-blocks; hidden 256 = 2 panels of K 128 = 1 k-block; two warpgroups,
  // four k32
  EXPECT_EQ(first.counts.tiles, blocks * 2 + blocks * 2);
  EXPECT_EQ(first.counts.wgmma,
            (std::map<int, std::int64_t>{{8, (blocks * 2 * 2 + blocks * 2 * 1) * 2 * 4}}));
  EXPECT_EQ(first.counts.ctas, 3 + 3);
  EXPECT_EQ(first.counts, second.counts);
  for (const Tensor& t : first.outputs.all()) {
    EXPECT_EQ(values<std::uint8_t>(first.outputs, t.name()), values<std::uint8_t>(second.outputs, t.name()))
        << t.name();
  }
  opened.session->bind(make_inputs(c.problem, routing_of(c.problem), 1));
  EXPECT_EQ(values<std::uint16_t>(opened.session->run(RunMode::eager).outputs, "out"),
            values<std::uint16_t>(first.outputs, "out"));
  EXPECT_TRUE(opened.session->time(TimingPlan{}).seconds.empty());
}

}  // namespace
}  // namespace moe::device::test
