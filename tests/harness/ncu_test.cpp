// Is what Nsight Compute counted read right, and does the comparison say which term is off?
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/ncu/ncu_compare.hpp"
#include "harness/ncu/run_ncu.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

std::string counted_file() {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_ncu.csv");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The case of that file in one layout.
Case counted_case(const std::string& layout, const std::string& kernel = "moeproof") {
  return parse_case(
      "op=moe_layer tokens=16 hidden=7168 inter=2048 experts=256 top_k=8 tp=8 shared=1 "
      "router=sigmoid_grouped groups=8 "
      "topk_groups=4 scale=2.5 load=zipf:1.2 quant=block128 seed=1 kernel=" +
      kernel + " layout=" + layout + " tile=auto");
}

const NcuQuantity& find(const NcuStage& stage, const std::string& name) {
  for (const NcuQuantity& q : stage.quantities)
    if (q.name == name) return q;
  throw std::runtime_error("no " + name);
}

/// Lines as ncu --csv prints them, in units of its choice.
std::string raw(int id, const std::string& kernel, double instructions, double megabytes, double active,
                double us) {
  std::string text;
  const auto line = [&](std::string_view metric, const std::string& unit, const std::string& value) {
    text +=
        "\"" + std::to_string(id) + "\",\"7\",\"moeproof\",\"127.0.0.1\",\"" + kernel +
        "\",\"1\",\"13\",\"(128, 1, 1)\",\"(4, 1, 1)\",\"0\",\"9.0\",\"Command line profiler metrics\",\"" +
        std::string(metric) + "\",\"" + unit + "\",\"" + value + "\"\n";
  };
  line(metric::kTensorInstructions, "inst", std::to_string(std::int64_t(instructions)));
  line(metric::kDramRead, "Mbyte", std::to_string(megabytes));
  line(metric::kTensorActive, "%", std::to_string(active));
  line(metric::kTime, "us", std::to_string(us));
  return text;
}
const char* const kHead =
    "==PROF== Connected to process 7\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block "
    "Size\",\"Grid "
    "Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";

// Fault: the model's counts leave those of the silicon, or the file's columns are mixed up.
TEST(NcuCompare, RecordedCountsAreEqual) {
  const auto launches = parse_ncu(counted_file(), "h200_ncu.csv");
  ASSERT_EQ(launches.size(), 21u);
  for (const std::string layout : {"normal_mma", "normal_wgmma", "swap_ab"}) {
    const auto stages = compare_ncu(launches, counted_case(layout), load_hardware("h200"), "h200_ncu.csv");
    ASSERT_EQ(stages.size(), 2u);
    for (const NcuStage& stage : stages) {
      EXPECT_EQ(find(stage, "tensor instructions").verdict, "equal") << layout << stage.stage;
      EXPECT_TRUE(find(stage, "DRAM bytes read").good) << layout << stage.stage;
      EXPECT_EQ(find(stage, "bank conflicts").verdict, "not counted");
      EXPECT_FALSE(stage.why.empty());
    }
  }
}

// Fault: units of ncu's choice are read as base units, a run that is counted twice as one, messages as data.
TEST(NcuCompare, RawOutputIsRead) {
  const Case trial = counted_case("swap_ab");
  std::string text = kHead;
  int id = 0;
  for (int run = 0; run < 2; ++run)
    for (const Part& part : sim::predict(trial.problem, trial.choice, load_hardware("h200")).parts) {
      if (part.limit == Limit::launch) continue;
      const bool first = part.name == "gemm1", gemm = part.name.starts_with("gemm");
      text += raw(id++, "moe_kernel", gemm ? (first ? 415744 : 207872) : 0,
                  gemm ? (first ? 209.05 : 102.96) : 0.1, 3, 50);
    }
  text += "some words of the program\n";
  const auto stages = compare_ncu(parse_ncu(text, "raw"), trial, load_hardware("h200"), "raw");
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(find(stages[0], "tensor instructions").verdict, "equal");
  EXPECT_EQ(find(stages[1], "tensor instructions").verdict, "equal");
  EXPECT_NEAR(*find(stages[0], "DRAM bytes read").counted, 209.05e6, 1);
  EXPECT_NEAR(*find(stages[0], "time").counted, 50e-6, 1e-12);
}

// Fault: Triton's launches are taken for others', or in the wrong order.
TEST(NcuCompare, TritonsKernelsAreFoundByName) {
  const std::string text = std::string(kHead) + raw(0, "void at::native::fill", 0, 1, 0, 2) +
                           raw(1, "fused_moe_kernel", 1000, 200, 8, 60) + raw(2, "silu_and_mul", 0, 1, 0, 2) +
                           raw(3, "fused_moe_kernel", 500, 100, 8, 30);
  const auto stages = compare_ncu(parse_ncu(text, "raw"), counted_case("normal_mma", "triton_fused_moe"),
                                  load_hardware("h200"), "raw");
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(*find(stages[0], "tensor instructions").counted, 1000);
  EXPECT_EQ(*find(stages[1], "tensor instructions").counted, 500);
  EXPECT_FALSE(find(stages[0], "tensor instructions").good);
  EXPECT_NE(stages[0].why.find("other tensor instructions"), std::string::npos) << stages[0].why;
}

// Fault: the sentence names a term that is right.
TEST(NcuCompare, TheWrongTermIsNamed) {
  const Case trial = counted_case("swap_ab");
  const auto why = [&](double instructions, double megabytes, double active, double us) {
    std::string text = "layout,stage,tensor_instructions,tensor_active_percent,dram_bytes_read,nanoseconds\n";
    for (const char* stage : {"gemm1", "gemm2"})
      text += "swap_ab," + std::string(stage) + "," + std::to_string(instructions) + "," +
              std::to_string(active) + "," + std::to_string(megabytes * 1e6) + "," +
              std::to_string(us * 1e3) + "\n";
    return compare_ncu(parse_ncu(text, "t"), trial, load_hardware("h200"), "t")[0].why;
  };
  EXPECT_NE(why(415744 + 4, 209, 3, 50).find("tensor instructions"), std::string::npos);
  EXPECT_NE(why(415744, 409, 3, 50).find("bytes are not"), std::string::npos);
  EXPECT_NE(why(415744, 209, 3, 52).find("within the stated"), std::string::npos);
  EXPECT_NE(why(415744, 209, 1.75, 100).find("rate of DRAM"), std::string::npos);
  EXPECT_NE(why(415744, 209, 30, 100).find("of the predicted time of its own"), std::string::npos);
}

// Fault: passes and conflicts of shared memory from other counters than those that agree with the emulated SM
// (tests/agreement/ncu_shared.py).
TEST(NcuFile, SharedMemoryOfTheCountersByInstruction) {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_ncu_shared.csv");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto launches = parse_ncu(text, "h200_ncu_shared.csv");
  ASSERT_EQ(launches.size(), 21u);
  EXPECT_EQ(launches[3].stage, "gemm1");
  EXPECT_EQ(launches[3].shared_passes(), 2520576 + 8488);
  EXPECT_EQ(launches[3].bank_conflicts(), 2040);
  EXPECT_EQ(NcuLaunch{}.bank_conflicts(), std::nullopt);
}

// Fault: a crash or a silent nothing on a file that is none.
TEST(NcuCompare, OtherFilesAreRefused) {
  EXPECT_THROW(parse_ncu("", "x"), BadInput);
  EXPECT_THROW(parse_ncu("a,b\n1,2\n", "x"), BadInput);
  EXPECT_THROW(parse_ncu("layout,stage,nanoseconds\nswap_ab,gemm1,abc\n", "x"), BadInput);
  EXPECT_THROW(parse_ncu("\"ID\",\"Metric Name\"\n\"0\"\n", "x"), BadInput);
  const Case trial = counted_case("swap_ab");
  EXPECT_THROW(compare_ncu({}, trial, load_hardware("h200"), "x"), BadInput);
  EXPECT_THROW(compare_ncu(parse_ncu(std::string(kHead) + raw(0, "moe_kernel", 1, 1, 1, 1), "x"), trial,
                           load_hardware("h200"), "x"),
               BadInput);
}

// Fault: the printed command counts something else than the comparison reads.
TEST(NcuCompare, TheCommandAsksForEveryMetric) {
  const auto words = ncu_command("moeproof", "op=x");
  const std::string all = words[9];
  for (const auto m : {metric::kTensorInstructions, metric::kTensorActive, metric::kDramRead, metric::kTime,
                       metric::kSharedLoads, metric::kSharedStores, metric::kSharedAll, metric::kSharedIdeal})
    EXPECT_NE(all.find(m), std::string::npos) << m;
  EXPECT_EQ(words.back(), "op=x");
}

// Fault: output that is lost, or a failure that is taken for an answer.
TEST(RunNcu, ReturnsWhatAProgramPrints) {
  EXPECT_EQ(output_of({find_program("sh"), "-c", "echo one; echo two"}), "one\ntwo\n");
  EXPECT_THROW(output_of({find_program("sh"), "-c", "exit 3"}), MachineFailure);
  EXPECT_THROW(output_of({"/no/such/program"}), MachineFailure);
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
}

}  // namespace
}  // namespace moe::harness
