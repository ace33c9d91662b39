// Tiles ranked by prediction, and what is wrong with a tuned table.
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/files/hardware_file.hpp"
#include "harness/tuned/lint.hpp"
#include "harness/tuned/rank.hpp"

namespace moe::harness {
namespace {

Problem layer() {
  Problem p;
  p.shape.hidden = 1024, p.shape.intermediate = 512, p.shape.experts = 8, p.shape.top_k = 2,
  p.shape.tokens = 16;
  return p;
}

TunedTable table_of(const std::string& entries,
                    const char* name = "E=3,N=7,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json") {
  return parse_tuned_table("{" + entries + "}", parse_tuned_name(name), "t.json");
}

std::string entry(int batch, int m, int n, int k, int warps, int stages) {
  return "\"" + std::to_string(batch) + "\":{\"BLOCK_SIZE_M\":" + std::to_string(m) +
         ",\"BLOCK_SIZE_N\":" + std::to_string(n) + ",\"BLOCK_SIZE_K\":" + std::to_string(k) +
         ",\"GROUP_SIZE_M\":1,\"num_warps\":" + std::to_string(warps) +
         ",\"num_stages\":" + std::to_string(stages) + "}";
}

bool has(const std::vector<Finding>& findings, const std::string& rule, Severity severity) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& f) { return f.rule == rule && f.severity == severity; });
}

// vLLM's tuner tries 5 x 4 x 3 sides, 2 warps, 4 groups, 4 stages. Would catch a side that is left out or
// tried twice.
TEST(Tune, SpaceIsTheTunersOwn) {
  const auto space = vllm_space();
  EXPECT_EQ(space.size(), 1920u);
  for (std::size_t i = 0; i < space.size(); ++i)
    for (std::size_t j = i + 1; j < std::min(space.size(), i + 400); ++j) ASSERT_NE(space[i], space[j]);
  EXPECT_EQ(usual_batches().size(), 18u);
}

// The first is no slower than any other tile that can run, the default among them; what cannot run is left
// out, and a tile that runs as another takes its time. Would catch a ranking upside down and an exception of
// one tile that ends the run.
TEST(Tune, RanksWhatRunsFastestFirst) {
  const Hardware h200 = load_hardware("h200");
  const Problem p = layer();
  BatchLoads loads(p);
  const std::int64_t batch[] = {16};
  loads.draw(batch);
  const std::vector<TileConfig> space{parse_tile("256x256x256/s5/w8"), parse_tile("64x128x128/s3/w4"),
                                      parse_tile("16x64x128/s3/w4"), parse_tile("16x64x256/s3/w4")};
  const auto ranked = rank_tiles(p, loads.at(16), space, h200);
  ASSERT_EQ(ranked.size(), 3u);  // the first runs as 256x256x128 in 5 stages: 320 KB
  EXPECT_TRUE(
      std::is_sorted(ranked.begin(), ranked.end(), [](auto& a, auto& b) { return a.seconds < b.seconds; }));
  EXPECT_EQ(ranked[0].seconds, ranked[1].seconds);
  EXPECT_EQ(ranked[0].tile.block_k, 128);
  EXPECT_EQ(ranked[0].seconds, layer_seconds(p, loads.at(16), parse_tile("16x64x128/s3/w4"), h200));
}

// Each rule on a table with that fault and on one without any. Would catch a rule that never or always
// speaks.
TEST(Lint, NamesEachFault) {
  std::string whole;
  int stages = 3;
  for (const std::int64_t b : usual_batches())
    whole +=
        (whole.empty() ? "" : ",") + entry(int(b), 16, 64, 128, 4, stages = 7 - stages);  // 3 and 4 in turns
  EXPECT_TRUE(lint_table(table_of(whole)).empty());

  const auto short_one =
      lint_table(table_of(entry(1, 64, 128, 128, 4, 3) + "," + entry(64, 64, 128, 128, 4, 3)));
  EXPECT_TRUE(has(short_one, "missing_batch", Severity::warning));
  EXPECT_TRUE(has(short_one, "short", Severity::warning));
  EXPECT_TRUE(has(short_one, "never_swaps", Severity::warning));
  EXPECT_FALSE(has(short_one, "shared_memory", Severity::error));

  EXPECT_TRUE(has(lint_table(table_of(entry(1, 256, 256, 128, 8, 5))), "shared_memory", Severity::error));
  EXPECT_TRUE(has(lint_table(table_of(entry(1, 48, 64, 128, 4, 3))), "tile", Severity::error));
  EXPECT_TRUE(has(lint_table(table_of(entry(1, 16, 64, 256, 4, 3))), "dead_value", Severity::warning));
  EXPECT_TRUE(has(lint_table(table_of(entry(1, 128, 256, 128, 4, 3))), "spills", Severity::warning));
  EXPECT_TRUE(has(lint_table(table_of(entry(1, 16, 64, 128, 4, 3) + "," + entry(2, 16, 64, 128, 4, 3) + "," +
                                      entry(4, 16, 64, 128, 4, 3))),
                  "redundant", Severity::note));
  std::string unknown = entry(1, 16, 64, 128, 4, 3);
  unknown.insert(unknown.size() - 1, ",\"BLOCK_SIZE\":3");
  EXPECT_TRUE(has(lint_table(table_of(unknown)), "dead_key", Severity::warning));
}

// A tile of 256 tokens for one token is far slower than the default; the default itself is not. Would catch
// sides of the comparison exchanged, and a table whose model is not found.
TEST(Lint, PredictsWhatIsSlowerThanTheDefault) {
  const char* name = "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
  PredictedLint predicted;
  EXPECT_TRUE(
      has(predicted.lint(table_of(entry(8, 256, 128, 128, 4, 2), name)), "slower", Severity::warning));
  EXPECT_TRUE(predicted.lint(table_of(entry(8, 16, 64, 128, 4, 3), name)).empty());
  EXPECT_TRUE(has(predicted.lint(table_of(entry(8, 16, 64, 128, 4, 3))), "unpredicted", Severity::note));
}

}  // namespace
}  // namespace moe::harness
