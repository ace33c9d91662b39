// The self-test on kernels whose faults are known: it must find them both ways, name who does, and shrink
// them.
#include "harness/self_test.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "harness/json_codec.hpp"
#include "harness/kill_file.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

/// A planted kernel that does not say what its roundings are.
class Silent : public PlantedExecutor {
 public:
  using PlantedExecutor::PlantedExecutor;
  std::vector<KernelInfo> kernels() const override {
    auto infos = PlantedExecutor::kernels();
    infos.front().semantics = nullptr;
    return infos;
  }
};

PlantedKernel kernel_of(const std::string& id) {
  if (id == "none")
    return [](const Case& c, const TensorSet& in, device::RunMode, int) { return right_outputs(c, in); };
  return miswriting([](const Case&, TensorSet& out) {  // the last row of a layer is not written
    Tensor* t = out.find("out");
    if (t == nullptr || t->dim(0) < 2) return;
    const std::size_t row = t->bytes() / std::size_t(t->dim(0));
    std::memset(t->data() + t->bytes() - row, 0xFF, row);
  });
}

/// A machine that takes no launch of the fault.
PlantedKernel refused_launch() {
  return [](const Case&, const TensorSet&, device::RunMode, int) -> TensorSet {
    throw BadInput("tensor map of 0 x 128 bytes: the matrix is empty");
  };
}

FaultSource source_of(std::vector<PlantedFault> faults) {
  return {std::move(faults), [](const PlantedFault& f, bool declared) -> std::unique_ptr<device::Executor> {
            if (declared) return std::make_unique<PlantedExecutor>(kernel_of(f.id));
            return std::make_unique<Silent>(kernel_of(f.id));
          }};
}

SelfTestPlan small_plan(const Hardware& hardware) {
  SelfTestPlan plan;
  plan.seeds = 2, plan.trials = 6, plan.threads = 2;
  plan.hardware = &hardware;
  return plan;
}

// Catches: a fault whose launch is refused, which ends the whole self-test instead of being found.
TEST(SelfTest, ARefusedLaunchIsFound) {
  const Hardware hardware = load_hardware("h200");
  const FaultSource source{{{"R1", "host", "an idle rank launches", "", false, ""}},
                           [](const PlantedFault&, bool) -> std::unique_ptr<device::Executor> {
                             return std::make_unique<PlantedExecutor>(refused_launch());
                           }};
  const auto rows = run_self_test(source, small_plan(hardware));
  ASSERT_EQ(rows.size(), 2u);
  for (const KillRow& row : rows) {
    EXPECT_EQ(row.killed, row.seeds);
    EXPECT_EQ(row.killed_by, std::vector<std::string>{"truth"});
  }
}

// Catches: a fault that is found but not counted, a finder that is not named, a right kernel that is "found".
TEST(SelfTest, FindsAPlantedFaultBothWays) {
  const Hardware hardware = load_hardware("h200");
  const std::string trigger =
      "op=moe_layer tokens=2 hidden=128 inter=128 experts=1 top_k=1 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=8x128x128";
  const FaultSource source =
      source_of({{"X1", "value", "the last row is not written", trigger, true, ""},
                 {"none", "value", "a right kernel", "", true, ""},
                 {"C1", "value", "a fault of the card", "", true, "only a card shows it"}});
  const auto rows = run_self_test(source, small_plan(hardware));
  ASSERT_EQ(rows.size(), 6u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(rows[std::size_t(i)].declared, i == 0);
    EXPECT_EQ(rows[std::size_t(i)].killed, 2);
    EXPECT_TRUE(keeps_promise(rows[std::size_t(i)], source.faults[0]));
    const auto& by = rows[std::size_t(i)].killed_by;
    EXPECT_NE(std::find(by.begin(), by.end(), i == 0 ? "truth" : "P8"), by.end());
    EXPECT_LE(rows[std::size_t(i)].distance, 2.0) << rows[std::size_t(i)].shrunk;
    EXPECT_GT(rows[std::size_t(i)].runs, 2);
    EXPECT_GE(rows[std::size_t(i)].cases, 1);
  }
  EXPECT_EQ(rows[2].killed + rows[3].killed, 0);
  EXPECT_FALSE(keeps_promise(rows[2], source.faults[1]));
  EXPECT_EQ(rows[4].seeds, 0);
  EXPECT_EQ(rows[4].why_not, "only a card shows it");
}

// Catches: a name that chooses nothing, a shard that drops or repeats a fault.
TEST(SelfTest, TriesTheFaultsThatAreAskedFor) {
  const std::vector<PlantedFault> three{
      {"A", "value", "", "", true, ""}, {"B", "value", "", "", true, ""}, {"C", "value", "", "", true, ""}};
  const auto chosen = [&](const std::string& list, const Shard& shard) {
    FaultSource source = source_of(three);
    choose_faults(source, list, shard);
    std::string ids;
    for (const PlantedFault& f : source.faults) ids += f.id;
    return ids;
  };
  EXPECT_EQ(chosen("", {}), "ABC");
  EXPECT_EQ(chosen("C,A", {}), "CA");
  EXPECT_EQ(chosen("", {1, 2}), "AC");
  EXPECT_EQ(chosen("", {2, 2}), "B");
  EXPECT_THROW(chosen("D", {}), BadInput);
}

// Catches: a row that is lost or read back as another, a file of other options that is gone on with.
TEST(SelfTest, GoesOnWithItsFile) {
  const std::string path = testing::TempDir() + "moeproof_kills_" + std::to_string(::getpid()) + ".jsonl";
  std::filesystem::remove(path);
  EXPECT_TRUE(open_kill_file(path, "seeds=2").empty());
  KillRow row;
  row.fault = "M06", row.kind = "bounds", row.text = "rows", row.declared = true, row.seeds = 2,
  row.killed = 1;
  row.cases = 3, row.killed_by = {"P8"}, row.shrunk = "a", row.trigger = "b", row.distance = 1.5,
  row.runs = 9;
  append_row(path, row);
  std::ofstream(path, std::ios::app) << "{\"fault\": \"M07";  // what a killed program leaves
  const std::vector<KillRow> rows = open_kill_file(path, "seeds=2");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(to_json(rows[0]), to_json(row));
  SelfTestPlan plan;
  plan.seeds = 2, plan.done = rows;
  plan.out_of_time = [] { return true; };
  const auto again = run_self_test(source_of({{"M06", "bounds", "rows", "b", false, ""}}), plan);
  ASSERT_EQ(again.size(), 1u) << "the row that is known, and none for which there is no time";
  EXPECT_EQ(again[0].killed, 1);
  EXPECT_THROW(open_kill_file(path, "seeds=3"), BadInput);
  std::ofstream(path) << "other\n";
  EXPECT_THROW(open_kill_file(path, "seeds=2"), BadInput);
}

}  // namespace
}  // namespace moe::harness
