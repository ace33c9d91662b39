// Does sim know what the layer's paths do? Its counts of both GEMMs beside what the emulated SM counts, and
// its launches beside the session's stages.
#include "device/session/layer_path.hpp"

#include <gtest/gtest.h>

#include "device/emulator/emulated_executor.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/generate.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "sim/counts.hpp"
#include "sim/predict.hpp"

namespace moe {
namespace {

Case layer_case(std::string_view kernel) {
  Case c;
  c.problem.shape.tokens = 70;
  c.problem.shape.experts = 5;
  c.problem.shape.top_k = 3;
  c.problem.shape.hidden = 384;
  c.problem.shape.intermediate = 128;
  c.problem.seed = 3;
  c.choice.kernel = kernel;
  c.choice.tile = {16, 128};
  c.choice.tile_down = {32, 128};
  return c;
}

// Catches a path's boxes that sim forgets: one a row where GEMM 1 gathers, one a tile where it does not.
TEST(LayerPathAgreement, SimsCountsAreTheEmulatorsCounts) {
  EXPECT_EQ(sim::kOwnKernel, kernel_name(device::LayerPath::scatter));
  EXPECT_EQ(sim::kFusedKernel, kernel_name(device::LayerPath::fused));
  EXPECT_EQ(sim::kGroupedKernel, kernel_name(device::LayerPath::grouped));
  device::EmulatedPlan plan;
  plan.arithmetic = reference::mma_step();
  plan.threads = 2;
  plan.sms = 4;
  const auto executor = device::make_emulated_executor(plan);
  for (const std::string_view kernel : {sim::kOwnKernel, sim::kFusedKernel, sim::kGroupedKernel}) {
    const Case c = layer_case(kernel);
    device::Opened opened = executor->open(c);
    ASSERT_TRUE(opened.session) << opened.refusal;
    opened.session->bind(make_inputs(c.problem, c.choice, routing_of(c.problem), 1));
    const device::RunResult run = opened.session->run(device::RunMode::eager);
    const ExpertLoad load = sim::local_load(c.problem, routing_of(c.problem));
    EXPECT_EQ(run.counts, sim::count(c.problem, c.choice, load, plan.sms)) << kernel;
  }
}

std::vector<std::string> parts(std::string_view kernel) {
  const Case c = layer_case(kernel);
  std::vector<std::string> names;
  for (const Part& part :
       sim::predict(c.problem, c.choice, load_hardware("h200"), routing_of(c.problem)).parts)
    names.push_back(part.name);
  return names;
}

// Catches a copy that the grouped path makes and sim does not charge, or charges elsewhere.
TEST(LayerPathAgreement, OnlyTheGroupedPathCopiesRows) {
  const std::vector<std::string> due{"topk",  "count_rows", "place_rows", "quantize", "gather_rows",
                                     "gemm1", "act_quant",  "gemm2",      "combine",  "launch"};
  EXPECT_EQ(parts(sim::kGroupedKernel), due);
  std::vector<std::string> others = due;
  others.erase(others.begin() + 4);
  EXPECT_EQ(parts(sim::kFusedKernel), others);
  EXPECT_EQ(parts(sim::kOwnKernel), others);
}

}  // namespace
}  // namespace moe
