// Does a wgmma read its operands and write its accumulators at any moment between issue and wait, and a part
// now, a part later?
#include "tests/device/kernels/wgmma_moments.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/device/emulator_fixture.hpp"

namespace moe::test {
namespace {

using namespace device::emulator;
using Values = std::pair<float, float>;

struct Seen {
  std::map<Values, int> values;
  std::set<std::string> checks;
};

/// The values that some schedules show.
Seen run(void (*kernel)(const void*), bool pieces, int seeds) {
  Seen seen;
  GlobalMemory memory;
  auto* out = static_cast<float*>(memory.allocate(8, "out", false));
  const WgmmaMomentsParams params{out};
  Launch launch;
  launch.run = kernel;
  launch.params = &params;
  launch.params_bytes = sizeof params;
  launch.block = kWgmmaMomentsThreads;
  launch.shared_bytes = kWgmmaMomentsShared;
  Emulator emulator(memory);
  for (int seed = 0; seed < seeds; ++seed) {
    Options o = Options::adversarial(std::uint64_t(seed), integer_arithmetic());
    o.mode = Mode::random;
    o.preempt = 2;
    o.max_reports = 1000;  // so that none ends a schedule
    o.wgmma_in_pieces = pieces;
    for (const Report& r : emulator.launch(launch, o).reports) seen.checks.insert(r.check);
    ++seen.values[{out[0], out[1]}];
  }
  return seen;
}

// Catches a wgmma that reads all of its operands at once: row 0, overwritten first, would never be older than
// row 63.
TEST(WgmmaMoments, OperandsAreReadInPieces) {
  const Values old_then_new{32, 64};
  const Seen pieces = run(run_operand_overwritten, true, 300);
  for (const Values& v : {Values{32, 32}, Values{64, 32}, Values{64, 64}, old_then_new})
    EXPECT_TRUE(pieces.values.contains(v)) << v.first << ", " << v.second;
  EXPECT_TRUE(pieces.checks.contains("overwrite-under-wgmma"));
  EXPECT_FALSE(run(run_operand_overwritten, false, 300).values.contains(old_then_new));
}

// Catches accumulators that all warps get at once: the warp that looks later would see at least as much.
TEST(WgmmaMoments, AccumulatorsAreWrittenWarpByWarp) {
  const Values result_then_nothing{32, 0};
  const Seen pieces = run(run_accumulator_watched, true, 300);
  EXPECT_TRUE(pieces.values.contains(result_then_nothing));
  EXPECT_TRUE(pieces.checks.contains("accumulator-in-flight"));
  EXPECT_FALSE(run(run_accumulator_watched, false, 300).values.contains(result_then_nothing));
}

// Catches pieces that break a kernel which keeps the rules, or an accumulation in the wrong order.
TEST(WgmmaMoments, PiecesGiveTheSameResult) {
  PipelineProblem problem(3, 5, 1);
  Emulator emulator(problem.memory);
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    Options o = Options::adversarial(seed, integer_arithmetic());
    o.wgmma_in_pieces = true;
    problem.clear_output();
    const LaunchResult result = emulator.launch(problem.launch(Fault::none), o);
    EXPECT_TRUE(result.clean()) << all_sentences(result);
    EXPECT_TRUE(problem.output_right()) << "seed " << seed;
    EXPECT_EQ(result.counts.wgmma.at(kPipelineN), 3 * 5 * 4);
  }
}

}  // namespace
}  // namespace moe::test
