// Does the emulated SM find what breaks Hopper's protocols, and nothing in a kernel that keeps them?
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/device/emulator_fixture.hpp"
#include "tests/device/kernels/mma_fault.hpp"

namespace moe::test {
namespace {

using device::emulator::Emulator;
using device::emulator::LaunchResult;
using device::emulator::Options;

Options deterministic() {
  Options o;
  o.arithmetic = integer_arithmetic();
  return o;
}

struct Planted {
  Fault fault;
  const char* name;
  std::set<std::string> checks;  // one of these must be reported
};
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

const Planted kPlanted[] = {
    {Fault::missing_full_wait, "missing_full_wait", {"read-before-tma", "uninitialised-smem", "race"}},
    {Fault::missing_empty_wait, "missing_empty_wait", {"tma-overwrites-tma", "overwrite-under-wgmma"}},
    {Fault::parity_never_flips,
     "parity_never_flips",
     {"tma-overwrites-tma", "overwrite-under-wgmma", "deadlock"}},
    {Fault::missing_wgmma_wait, "missing_wgmma_wait", {"accumulator-in-flight"}},
    {Fault::missing_proxy_fence, "missing_proxy_fence", {"missing-proxy-fence"}},
    {Fault::expect_too_few_bytes, "expect_too_few_bytes", {"expect-tx", "read-before-tma", "deadlock"}},
    {Fault::expect_too_many_bytes, "expect_too_many_bytes", {"deadlock"}},
    {Fault::store_past_the_end, "store_past_the_end", {"global-bounds"}},
    {Fault::stage_released_early, "stage_released_early", {"overwrite-under-wgmma", "race"}},
    {Fault::missing_epilogue_barrier, "missing_epilogue_barrier", {"race", "uninitialised-smem"}},
    {Fault::missing_bulk_wait, "missing_bulk_wait", {"overwrite-under-bulk-store"}},
    {Fault::missing_wgmma_fence, "missing_wgmma_fence", {"wgmma-fence"}},
    {Fault::warp_skips_wgmma, "warp_skips_wgmma", {"deadlock"}},
    {Fault::misaligned_tiles, "misaligned_tiles", {"alignment"}},
    {Fault::init_without_fence, "init_without_fence", {"mbarrier-init-fence"}},
    {Fault::init_without_barrier, "init_without_barrier", {"mbarrier-init-race", "mbarrier-uninitialised"}},
    {Fault::barrier_count_too_large, "barrier_count_too_large", {"deadlock", "named-barrier"}},
    {Fault::empty_count_too_small,
     "empty_count_too_small",
     {"race", "overwrite-under-wgmma", "mbarrier-arrivals"}},
    {Fault::missing_commit, "missing_commit", {"accumulator-in-flight"}},
    {Fault::scales_read_after_release, "scales_read_after_release", {"race"}},
    {Fault::scale_read_past_the_end, "scale_read_past_the_end", {"global-bounds"}},
    {Fault::one_arrival_for_all_warps, "one_arrival_for_all_warps", {"race"}},
    {Fault::producer_parity_not_inverted, "producer_parity_not_inverted", {"deadlock"}},
    {Fault::no_final_wait, "no_final_wait", {"accumulator-in-flight"}},
    {Fault::lane_leaves_warp_sync, "lane_leaves_warp_sync", {"warp-divergence", "deadlock"}},
    {Fault::store_to_input, "store_to_input", {"forbidden-store"}},
    {Fault::stages_overlap, "stages_overlap", {"tma-overwrites-tma", "overwrite-under-wgmma"}},
    {Fault::shared_read_out_of_bounds, "shared_read_out_of_bounds", {"smem-bounds"}},
    {Fault::misaligned_load, "misaligned_load", {"misaligned-access"}},
    {Fault::uninitialised_read, "uninitialised_read", {"uninitialised-smem"}},
    {Fault::other_swizzle, "other_swizzle", {"descriptor"}},
};

bool finds(const Planted& planted, const LaunchResult& result) {
  return std::any_of(result.reports.begin(), result.reports.end(),
                     [&](const auto& r) { return planted.checks.contains(r.check); });
}

class PlantedFault : public testing::TestWithParam<Planted> {};

// Catches: a rule that the checker does not enforce in its plain order. Happens-before finds all of these
// without luck.
TEST_P(PlantedFault, IsFoundInTheDeterministicOrder) {
  PipelineProblem problem(3, 5, 1);
  Emulator emulator(problem.memory);
  const LaunchResult result = emulator.launch(problem.launch(GetParam().fault), deterministic());
  EXPECT_TRUE(finds(GetParam(), result)) << all_sentences(result);
}

// Catches: a rule that some order of asynchronous completion hides, and a crash of the emulator on a broken
// kernel.
TEST_P(PlantedFault, IsFoundUnderAdversarialOrders) {
  PipelineProblem problem(3, 5, 1);
  Emulator emulator(problem.memory);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const LaunchResult result =
        emulator.launch(problem.launch(GetParam().fault), Options::adversarial(seed, integer_arithmetic()));
    EXPECT_TRUE(finds(GetParam(), result)) << "seed " << seed << "\n" << all_sentences(result);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipeline, PlantedFault, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

// Catches: a fault of the enumeration that no test plants.
TEST(ProtocolChecker, EveryFaultOfThePipelineIsPlanted) {
  EXPECT_EQ(std::size(kPlanted) + 1, std::size_t(Fault::count));
}

// Catches: false findings, and results that depend on the order of completion.
TEST(ProtocolChecker, CleanKernelIsCleanAndRightUnderManySeeds) {
  PipelineProblem problem(3, 5, 2);
  Emulator emulator(problem.memory);
  for (int seed = -1; seed < 60; ++seed) {
    problem.clear_output();
    const Options o =
        seed < 0 ? deterministic() : Options::adversarial(std::uint64_t(seed), integer_arithmetic());
    const LaunchResult result = emulator.launch(problem.launch(Fault::none), o);
    ASSERT_TRUE(result.clean()) << "seed " << seed << "\n" << all_sentences(result);
    ASSERT_TRUE(problem.output_right()) << "seed " << seed;
  }
}

// Catches: results that depend on the checks, and checks that cannot be switched off.
TEST(ProtocolChecker, WithoutChecksTheBytesAreTheSame) {
  PipelineProblem problem(2, 4, 3);
  Emulator emulator(problem.memory);
  Options o = deterministic();
  o.check = false;
  problem.clear_output();
  EXPECT_TRUE(emulator.launch(problem.launch(Fault::none), o).clean());
  EXPECT_TRUE(problem.output_right());
  EXPECT_TRUE(emulator.launch(problem.launch(Fault::missing_proxy_fence), o).clean());
  EXPECT_FALSE(emulator.launch(problem.launch(Fault::store_past_the_end), o).clean());  // bounds stay
}

// Catches: the same seed giving another run.
TEST(ProtocolChecker, SameSeedSameReports) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::string first;
    for (int run = 0; run < 2; ++run) {
      PipelineProblem problem(2, 4, 4);
      Emulator emulator(problem.memory);
      const LaunchResult r = emulator.launch(problem.launch(Fault::missing_epilogue_barrier),
                                             Options::adversarial(seed, integer_arithmetic()));
      const std::string text =
          all_sentences(r) + std::to_string(r.switches) + " " + std::to_string(r.accesses);
      if (run == 0) first = text;
      EXPECT_EQ(text, first);
    }
  }
}

// Catches: a report without the kernel's line (debug information lost, layer frames not skipped).
TEST(ProtocolChecker, ReportsNameTheKernelLine) {
  PipelineProblem problem(2, 4, 1);
  Emulator emulator(problem.memory);
  const LaunchResult r = emulator.launch(problem.launch(Fault::missing_proxy_fence), deterministic());
  ASSERT_FALSE(r.reports.empty());
  EXPECT_TRUE(r.reports[0].where.starts_with("tests/device/kernels/pipeline.cuh:"))
      << r.reports[0].sentence();
  EXPECT_NE(r.reports[0].text.find("fence.proxy.async"), std::string::npos);
}

// Catches: a report that does not say in which tile, k-block and stage the fault showed.
TEST(ProtocolChecker, ReportsNameTileKBlockAndStage) {
  PipelineProblem problem(2, 4, 1);
  Emulator emulator(problem.memory);
  const LaunchResult late = emulator.launch(problem.launch(Fault::missing_empty_wait), deterministic());
  ASSERT_FALSE(late.reports.empty());  // the first stage to be filled twice
  EXPECT_TRUE(late.reports[0].text.ends_with(" (tile of expert 0, row 0, panel 0; k-block 3, stage 0)"))
      << late.reports[0].text;
  const LaunchResult dead = emulator.launch(problem.launch(Fault::expect_too_many_bytes), deterministic());
  EXPECT_NE(dead.reports.back().text.find("(tile of expert 0, row 0, panel 0; k-block 0, stage 0), wait at"),
            std::string::npos)
      << dead.reports.back().text;
}

// Catches: a deadlock that does not say who waits for what.
TEST(ProtocolChecker, DeadlockSaysWhatIsMissing) {
  PipelineProblem problem(2, 4, 1);
  Emulator emulator(problem.memory);
  const LaunchResult r = emulator.launch(problem.launch(Fault::expect_too_many_bytes), deterministic());
  ASSERT_TRUE(r.deadlock);
  ASSERT_FALSE(r.reports.empty());
  const std::string text = r.reports.back().text;
  EXPECT_NE(text.find("16 byte(s)"), std::string::npos) << text;
  EXPECT_NE(text.find("mbarrier at shared offset"), std::string::npos) << text;
}

// Catches: wrong instruction counts.
TEST(ProtocolChecker, CountsWhatRetires) {
  PipelineProblem problem(3, 5, 1);
  Emulator emulator(problem.memory);
  const Counts c = emulator.launch(problem.launch(Fault::none), deterministic()).counts;
  EXPECT_EQ(c.ctas, 1);
  EXPECT_EQ(c.wgmma, (std::map<int, std::int64_t>{{16, 3 * 5 * 4}}));
  EXPECT_EQ(c.mma, 0);
  EXPECT_EQ(c.tma_loads, 3 * 5 * 2);
  EXPECT_EQ(c.tma_load_bytes, 3 * 5 * kStageBytes);
  EXPECT_EQ(c.tma_store_bytes, 3 * 64 * 16 * 4);
}

// Catches: an mma.sync or a redux.sync that waits for nobody, so that a lane's absence gives wrong values in
// silence.
class NeedsAllLanes : public testing::TestWithParam<void (*)(const void*)> {};
INSTANTIATE_TEST_SUITE_P(ProtocolChecker, NeedsAllLanes, testing::Values(run_mma_fault, run_redux_fault),
                         [](const auto& info) { return std::string(info.index == 0 ? "mma" : "redux"); });
TEST_P(NeedsAllLanes, AMissingLaneIsADeadlock) {
  device::emulator::GlobalMemory memory;
  Emulator emulator(memory);
  MmaFaultParams params{static_cast<float*>(memory.allocate(32 * 4 * 4, "out")), -1};
  for (int seed = -1; seed < 5; ++seed)
    for (int lane : {-1, 0, 7, 31}) {
      params.missing_lane = lane;
      const Options o =
          seed < 0 ? deterministic() : Options::adversarial(std::uint64_t(seed), integer_arithmetic());
      const LaunchResult r = emulator.launch({GetParam(), &params, sizeof params, 1, 32, 0}, o);
      EXPECT_EQ(r.deadlock, lane >= 0);
      EXPECT_EQ(r.clean(), lane < 0) << all_sentences(r);
      if (lane >= 0) {
        EXPECT_NE(r.reports.at(0).text.find("31 of 32 lanes"), std::string::npos) << all_sentences(r);
      }
    }
}

}  // namespace
}  // namespace moe::test
