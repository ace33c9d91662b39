// Does sim know what the silicon does? Its counts beside what Nsight Compute read off an H200
// (fixtures/measured/h200_ncu.csv: DeepSeek-V3 TP8, 16 tokens, zipf:1.2, the three layouts).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/case.hpp"
#include "sim/predict.hpp"

namespace moe {
namespace {

struct Row {
  double tensor_instructions = 0, dram_bytes = 0;
};

/// Sums over the launches of each layout.
std::map<std::string, Row> measured() {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_ncu.csv");
  std::map<std::string, Row> rows;
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line,
            "layout,stage,tensor_instructions,tensor_active_percent,dram_bytes_read,l2_bytes,nanoseconds");
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string layout, stage, field[3];
    std::getline(fields, layout, ',');
    std::getline(fields, stage, ',');
    for (std::string& f : field) std::getline(fields, f, ',');
    if (!stage.starts_with("gemm")) continue;
    rows[layout].tensor_instructions += std::stod(field[0]);
    rows[layout].dram_bytes += std::stod(field[2]);
  }
  return rows;
}

Problem measured_problem() {
  return parse_case(
             "op=moe_layer tokens=16 hidden=7168 inter=2048 experts=256 top_k=8 tp=8 shared=1 "
             "router=sigmoid_grouped "
             "groups=8 topk_groups=4 scale=2.5 load=zipf:1.2 quant=block128 seed=1 kernel=moeproof "
             "layout=swap_ab tile=auto")
      .problem;
}

// Catches: an instruction that the closed forms forget or imagine, bytes that the memory model loses. The
// pipe counts a wgmma once for each of the warpgroup's four warps, an mma.sync once.
TEST(NcuAgreement, TensorInstructionsAreEqualAndBytesWithinTwoPercent) {
  const auto rows = measured();
  ASSERT_EQ(rows.size(), 3u);
  for (const Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab}) {
    Choice choice;
    choice.layout = layout;
    const Prediction p = sim::predict(measured_problem(), choice, load_hardware("h200"));
    const Row& row = rows.at(std::string(name(layout)));
    EXPECT_EQ(double(4 * p.counts.wgmma_total() + p.counts.mma), row.tensor_instructions) << name(layout);
    EXPECT_NEAR(p.hbm_bytes, row.dram_bytes, 0.02 * row.dram_bytes) << name(layout);
  }
}

}  // namespace
}  // namespace moe
