// Does the replay line of a schedule that failed name that schedule and no other?
#include <gtest/gtest.h>

#include "harness/run_problem.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

/// Right in every run but `wrong_run`, under the name of the executor that has schedules.
class FailingOnce final : public PlantedExecutor {
 public:
  explicit FailingOnce(int wrong_run)
      : PlantedExecutor([wrong_run](const Case& c, const TensorSet& inputs, device::RunMode, int run) {
          TensorSet out = own_copy(right_outputs(c, inputs));
          if (run == wrong_run) out.at("out").as<std::uint16_t>()[5] = 0x4500;
          return out;
        }) {}
  std::string_view name() const override { return "emulated"; }
};

std::string replay(int wrong_run, int first_schedule = 1) {
  const Case c = parse_case(
      "op=combine tokens=8 hidden=256 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=8x128x128");
  FailingOnce executor(wrong_run);
  const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.repeats = 12;
  plan.first_schedule = first_schedule;
  const CaseRecord record = run_problem(c.problem, {c.choice}, plan).front();
  EXPECT_EQ(record.verdict->correctness == Correctness::passed, wrong_run < 0);
  return record.verdict->replay;
}

// Catches: a replay that runs all schedules again, or another one than that which failed.
TEST(ScheduleReplay, NamesTheScheduleThatFailed) {
  const auto holds = [](const std::string& line, const char* text) {
    return line.find(text) != std::string::npos;
  };
  EXPECT_TRUE(holds(replay(-1), "--schedules 12 --case")) << "what passed stands for all";
  EXPECT_FALSE(holds(replay(0), "schedule")) << "the plain order is always run";
  EXPECT_TRUE(holds(replay(1), "--schedules 2 --case"));
  EXPECT_TRUE(holds(replay(7), "--schedules 2 --first-schedule 7 --case"));
  EXPECT_TRUE(holds(replay(7, 100), "--schedules 2 --first-schedule 106 --case"));
}

}  // namespace
}  // namespace moe::harness
