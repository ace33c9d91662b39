// The shapes of a deployment and the kernels that are compiled for them.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernels/variants.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/aot/coverage.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

Problem deployment(const char* name, int tp, int ep) {
  const ModelPreset model = load_model(name);
  Problem p;
  p.shape = model.shape, p.quant = model.quant, p.routing.router = model.router;
  p.shape.tp = tp, p.shape.ep = ep;
  return p;
}

// Would catch: a tile that some routing leads to and the enumeration leaves out, so that "covered" proves
// nothing.
TEST(Aot, EveryDrawnTileIsAmongTheReachable) {
  for (const char* load : {"uniform", "zipf:1.2", "hot:0.9", "balanced", "empty:0.5"})
    for (const std::int64_t tokens : {1, 7, 64, 300, 1000}) {
      Problem p = deployment("qwen3-30b", 1, 1);
      p.shape.tokens = tokens;
      p.routing.load = parse_load(load);
      const ExpertLoad rows = sim::local_load(p, routing_of(p));
      for (const Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab}) {
        Choice choice;
        choice.layout = layout;
        choice = resolve_tiles(choice, p, rows);
        const auto reachable = reachable_tiles(layout, tokens);
        EXPECT_NE(std::ranges::find(reachable, choice.tile), reachable.end()) << load << " " << tokens;
        EXPECT_NE(std::ranges::find(reachable, choice.tile_down), reachable.end()) << load << " " << tokens;
      }
    }
}

// Would catch: a deployment called covered by kernels of another scheme or path, or by fewer than are
// launched.
TEST(Aot, ADeploymentMapsToTheKernelsOfItsSchemeAndPath) {
  const std::vector<std::int64_t> tokens{0, 1, 64, 4096};
  const PathCoverage fused =
      cover(deployment("nemotron-3-nano", 1, 1), tokens, "moeproof_fused", Layout::swap_ab);
  ASSERT_TRUE(fused.covered()) << fused.outside->reason;
  EXPECT_TRUE(fused.variants.contains("gathered_swap_ab_m128_flat"));
  EXPECT_TRUE(fused.variants.contains("swap_ab_m8_n64_flat"));
  for (const std::string& name : fused.variants) EXPECT_EQ(name.find("block"), std::string::npos) << name;
  const PathCoverage grouped =
      cover(deployment("deepseek-v3", 8, 1), tokens, "moeproof_grouped", Layout::normal_wgmma);
  EXPECT_TRUE(grouped.variants.contains("gather_rows"));
  EXPECT_TRUE(grouped.variants.contains("normal_wgmma_m128_block"));
}

// Would catch: a shape that no kernel takes and that is passed over, and a nearest one that is outside too.
TEST(Aot, AShapeOutsideNamesTheNearestInside) {
  const PathCoverage ranks = cover(deployment("qwen3-235b", 8, 1), {16}, "moeproof", Layout::swap_ab);
  ASSERT_FALSE(ranks.covered());  // 1536 / 8 = 192 is no multiple of 128
  EXPECT_EQ(ranks.outside->nearest, "--tp 4 --ep 1");
  const PathCoverage many =
      cover(deployment("mixtral-8x7b", 1, 1), {1, 1'500'000'000}, "moeproof", Layout::swap_ab);
  ASSERT_FALSE(many.covered());
  EXPECT_EQ(many.outside->nearest, "--tokens 1073741791");  // 2 rows a token and 64 of alignment: 2^31 - 1
}

}  // namespace
}  // namespace moe::harness
