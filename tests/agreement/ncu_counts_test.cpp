// Does sim know what the silicon does? Its counts beside what Nsight Compute read off an H200
// (fixtures/measured/h200_ncu.csv: DeepSeek-V3 TP8, 16 tokens, zipf:1.2, the three layouts).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/case.hpp"
#include "fixtures/problem/generate.hpp"
#include "sim/predict.hpp"
#include "sim/predict_gemms.hpp"
#include "sim/shared_accesses.hpp"

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

/// wavefronts and conflicts of each GEMM, by layout and stage.
std::map<std::string, sim::SharedAccesses> measured_shared() {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_ncu_shared.csv");
  std::map<std::string, sim::SharedAccesses> rows;
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line,
            "layout,stage,shared_load_wavefronts,shared_store_wavefronts,shared_wavefronts,"
            "shared_wavefronts_ideal");
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string layout, stage, field[4];
    std::getline(fields, layout, ',');
    std::getline(fields, stage, ',');
    for (std::string& f : field) std::getline(fields, f, ',');
    if (stage.starts_with("gemm"))
      rows[layout + " " + stage] = {std::stoll(field[0]) + std::stoll(field[1]),
                                    std::stoll(field[2]) - std::stoll(field[3])};
  }
  return rows;
}

// Catches: an access of shared memory that sim forgets, or a bank, lane or row that it takes otherwise than
// the silicon. ptxas reads one word a CTA more in normal_mma than the source says.
TEST(NcuAgreement, BankConflictsOfEveryGemmAreEqual) {
  const auto rows = measured_shared();
  ASSERT_EQ(rows.size(), 6u);
  const Problem problem = measured_problem();
  const ExpertLoad load = sim::local_load(problem, routing_of(problem));
  for (const Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab}) {
    Choice choice;
    choice.layout = layout;
    for (const auto& gemm : sim::predict_gemms(problem, choice, load_hardware("h200"), load)) {
      const auto& row = rows.at(std::string(name(layout)) + " " + gemm.name);
      const std::int64_t again = layout == Layout::normal_mma ? gemm.counts.ctas : 0;
      EXPECT_EQ(gemm.counts.bank_conflicts, row.conflicts) << name(layout) << " " << gemm.name;
      EXPECT_EQ(gemm.counts.shared_wavefronts + again, row.wavefronts) << name(layout) << " " << gemm.name;
    }
  }
}

}  // namespace
}  // namespace moe
