// Does sim know what the kernels do? Its closed forms and its picture of a stage beside what the emulated SM
// counts where instructions retire, and beside the table the kernels are built from.
#include <gtest/gtest.h>

#include "device/kernels/emulated_variants.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "sim/counts.hpp"
#include "sim/shared_accesses.hpp"
#include "sim/tiles.hpp"
#include "tests/agreement/shape_of_variant.hpp"
#include "tests/device/gemm_problem.hpp"

namespace moe {
namespace {

using device::GemmConfig;
using device::kVariants;

class GemmAgreement : public testing::TestWithParam<int> {
 protected:
  const GemmConfig config = kVariants[GetParam()].gemm;
};
INSTANTIATE_TEST_SUITE_P(Variants, GemmAgreement, testing::ValuesIn(test::gemm_variants()),
                         [](const auto& info) { return std::string(kVariants[info.param].name); });

// Catches: a tile, an instruction or a box that sim forgets or imagines, for dead experts, tails of rows,
// columns and k, and any number of CTAs; a kernel that does more work than its contract says.
TEST_P(GemmAgreement, SimsCountsAreTheEmulatorsCounts) {
  const MmaStep& arithmetic = reference::mma_step();
  device::test::Random random(4711 + GetParam());
  for (int trial = 0; trial < 6; ++trial) {
    std::vector<int> rows(std::size_t(device::test::draw(random, 1, 5)));
    for (int& r : rows)
      r = device::test::draw(random, 0, 1) * device::test::draw(random, 0, 2 * config.block_m + 1);
    rows.back() += rows.back() == 0;
    const bool block = config.block_scales();
    const int n = block ? 256 : device::test::draw(random, 1, 40) * 8;
    const int k = block ? 128 * device::test::draw(random, 1, 9) : 16 * device::test::draw(random, 1, 40);
    const auto gemm = device::test::make_gemm(random, config.scales, rows, n, k, device::test::kExact);
    const int sms = device::test::draw(random, 1, 4);

    const ExpertLoad load{std::vector<std::int64_t>(rows.begin(), rows.end())};
    Counts predicted = sim::gemm_counts(test::shape_of(config, n, k), load, load.total(), sms);
    auto options = device::emulator::Options::adversarial(std::uint64_t(trial) + 1, arithmetic);
    device::EmulatedMachine machine(device::emulated_variants(), options, sms);
    const auto outcome = device::test::run(machine, GetParam(), gemm, int(predicted.ctas));
    ASSERT_TRUE(outcome.counted);
    predicted.tiles = 0;  // no instruction of its own retires for a tile; those of its k-blocks do
    EXPECT_EQ(outcome.counts, predicted) << "n " << n << ", k " << k;
  }
}

// Catches: a bank, a lane or a step of the search for tiles that sim takes otherwise. It shows with more than
// 32 experts, whose block starts share banks, and with more than 32 tiles a CTA, which needs a second search.
// The emulated SM takes the k-th times of all lanes for one instruction, so that lanes must skip alike here:
// a power of two of experts, whole groups of columns.
TEST_P(GemmAgreement, SimsBankConflictsAreTheEmulators) {
  const MmaStep& arithmetic = reference::mma_step();
  device::test::Random random(815 + GetParam());
  std::int64_t conflicts = 0;
  for (int trial = 0; trial < 3; ++trial) {
    std::vector<int> rows(std::size_t(64) << device::test::draw(random, 0, 1));
    for (int& r : rows) r = device::test::draw(random, 0, 1) * device::test::draw(random, 0, 9);
    rows.back() += rows.back() == 0;
    const int n = config.block_scales() ? 128 : device::test::draw(random, 1, 3) * 64;
    const int k = config.block_scales() ? 128 : 16;
    const auto gemm = device::test::make_gemm(random, config.scales, rows, n, k, device::test::kExact);
    const int sms = device::test::draw(random, 1, 3);

    const ExpertLoad load{std::vector<std::int64_t>(rows.begin(), rows.end())};
    const sim::GemmShape shape = test::shape_of(config, n, k);
    const std::int64_t ctas = sim::grid_size(shape, load.total(), int(rows.size()), sms);
    const auto shared = sim::shared_accesses(shape, load, ctas, int(gemm.out_rows % 20));
    device::emulator::Options options;
    options.arithmetic = arithmetic;
    options.wavefronts = true;
    device::EmulatedMachine machine(device::emulated_variants(), options, sms);
    const auto outcome = device::test::run(machine, GetParam(), gemm, int(ctas));
    EXPECT_EQ(outcome.counts.shared_wavefronts, shared.wavefronts) << rows.size() << " experts, n " << n;
    EXPECT_EQ(outcome.counts.bank_conflicts, shared.conflicts) << rows.size() << " experts, n " << n;
    conflicts += shared.conflicts;
  }
  EXPECT_GT(conflicts, 0);
}

// Catches: a ring that was made deeper or shallower, or a stage that carries something else, while sim still
// counts on the old one.
TEST_P(GemmAgreement, SimsStageIsTheKernelsStage) {
  const sim::GemmShape shape = test::shape_of(config, 512, 7168);
  EXPECT_EQ(shape.stages(), config.stages);
  EXPECT_EQ(shape.load_bytes(), config.load_bytes());
  EXPECT_EQ(shape.math_warps(), config.math_warps());
}

}  // namespace
}  // namespace moe
