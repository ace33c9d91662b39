// Cells of a bench report beside what the card can do and the best public kernel.
#include "harness/kernel_limits.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

CaseRecord timed(const std::string& line, double gemm1, double gemm2, double layer) {
  CaseRecord r;
  r.trial = parse_case(line);
  r.measurement = Measurement{};
  r.measurement->seconds = {layer, layer, layer * 1.01};
  r.measurement->stages = {{"quantize", {1e-6}}, {"gemm1", {gemm1}}, {"gemm2", {gemm2}}};
  return r;
}

const char* kDeepSeek =
    "op=moe_layer model=deepseek-v3 tokens=1 hidden=7168 inter=2048 experts=256 top_k=8 tp=8 quant=block128 "
    "seed=1 "
    "layout=";

std::vector<PublicTime> known() {
  const std::string path = std::string(MOE_SOURCE_DIR) + "/fixtures/measured/h200_public_kernels.csv";
  return parse_public_times(read_file(path), path);
}

// Would catch a stage of another name, the wrong best layout, a public figure of another shape.
TEST(KernelLimits, CellsOfALayer) {
  Report report;
  report.cases = {timed(std::string(kDeepSeek) + "swap_ab", 11e-6, 7e-6, 33e-6),
                  timed(std::string(kDeepSeek) + "normal_mma", 19e-6, 6e-6, 42e-6)};
  const auto cells = limit_cells(report, 0, known());
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[0].stage, "gemm1");
  EXPECT_EQ(cells[0].fewest.bytes, 29382880);
  EXPECT_NEAR(cells[0].limit_s, 29382880 / 4.57e12, 1e-12);
  EXPECT_NEAR(cells[0].fraction(), 6.4295e-6 / 11e-6, 1e-4);
  EXPECT_TRUE(cells[0].fastest);
  EXPECT_FALSE(cells[1].fastest);  // gemm2 of swap_ab: the other layout's is shorter
  EXPECT_TRUE(cells[4].fastest);
  ASSERT_TRUE(cells[0].best_public.has_value());
  EXPECT_EQ(cells[0].best_public->kind, "gemm_host_counts");
  EXPECT_EQ(cells[2].best_public->kind, "layer_public_gemms_plain_glue");
  const auto json = nlohmann::json::parse(limit_json(cells, 0, "abc"));
  ASSERT_EQ(json["cells"].size(), 3u);  // one a stage
  EXPECT_EQ(json["cells"][1]["layout"], "swap_ab");
  EXPECT_NEAR(json["cells"][0]["other_layouts_us"]["normal_mma"], 19, 1e-9);
  EXPECT_NEAR(ratio_to_public(cells[0], 0), 11 / 13.298, 1e-9);
  EXPECT_NEAR(ratio_to_public(cells[0], 2 * 4.566e12), 2 * 11 / 13.298, 1e-9);
}

// A measured stream counts where it is faster than what is known, never where it is slower.
TEST(KernelLimits, ASlowRunDoesNotLowerTheBar) {
  Report report;
  report.cases = {timed(std::string(kDeepSeek) + "swap_ab", 11e-6, 7e-6, 33e-6)};
  const double bar = limit_cells(report, 0, {})[0].limit_s;
  EXPECT_EQ(limit_cells(report, 3e12, {})[0].limit_s, bar);
  EXPECT_LT(limit_cells(report, 4.9e12, {})[0].limit_s, bar);
}

// Public figures are of uniform routing: an uneven load has none, and says null.
TEST(KernelLimits, UnevenLoadsHaveNoPublicFigure) {
  Report report;
  report.cases = {timed(std::string(kDeepSeek) + "swap_ab load=zipf:1.2", 11e-6, 7e-6, 33e-6)};
  const auto cells = limit_cells(report, 0, known());
  ASSERT_EQ(cells.size(), 3u);
  for (const LimitCell& cell : cells) EXPECT_FALSE(cell.best_public.has_value());
  const auto json = nlohmann::json::parse(limit_json(cells, 0, "abc"));
  EXPECT_TRUE(json["cells"][0]["best_public_us"].is_null());
  EXPECT_EQ(json["cells"][2]["staged_limit_us"].is_null(), false);
  EXPECT_EQ(json["cells"][0]["routing"], "zipf:1.2");
}

// Every shape of the public file has its three stages, and the bytes that fewest_work counts where all
// experts have rows. Would catch a file of other shapes.
TEST(KernelLimits, PublicFileIsWhole) {
  EXPECT_EQ(known().size(), 5u * 12u * 3u);
  EXPECT_THROW(parse_public_times(
                   "model,tp,ep,tokens,stage,us,name,kind,read_tb_per_s\nm,1,1,1,gemm3,1,n,gemm,4\n", "f"),
               BadInput);
}

}  // namespace
}  // namespace moe::harness
