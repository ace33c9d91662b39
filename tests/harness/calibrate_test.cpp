// Do measured rows become the right constants, and a hardware file that says where each comes from?
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "fixtures/files/embedded.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/calibrate/derive.hpp"
#include "harness/calibrate/hardware_text.hpp"
#include "harness/calibrate/measure_rounds.hpp"
#include "harness/calibrate/rounds.hpp"
#include "tests/device/writes_down.hpp"

namespace moe::harness {
namespace {

using device::MeasuredRows;

constexpr int kSms = 132;

std::string h200() { return std::string(find_embedded("hardware/h200.json")->bytes); }

void add_tensor(MeasuredRows& rows) {
  for (const int n : {8, 128, 256}) {
    for (const int warpgroups : {1, 2}) {
      rows.add("wgmma_chain", {{"n", n}, {"warpgroups", warpgroups}}, std::max(n / 2.0, 16 + n / 4.0),
               "cycles");
      rows.add("wgmma_promote", {{"n", n}, {"warpgroups", warpgroups}}, 100.0 * warpgroups + n, "cycles");
    }
    rows.add("wgmma_chain_rs", {{"n", n}, {"warpgroups", 1}}, n / 2.0, "cycles");
    rows.add("wgmma_drain", {{"n", n}, {"warpgroups", 1}}, 2.0 * n + 50, "cycles");
  }
  rows.add("wgmma_handover", {{"n", 128}, {"warpgroups", 1}}, 100.0 + 128 + 77, "cycles");
  rows.add("wgmma_handover", {{"n", 128}, {"warpgroups", 2}}, 610, "cycles");
  rows.add("mma_f16_chain", {{"warps", 16}}, 6, "cycles");
  rows.add("convert_chain", {{"warps", 4}}, 4.25, "cycles");
  rows.add("convert_chain", {{"sms", 1}}, 1.98e9, "Hz");
  rows.add("wgmma_chain", {{"sms", 1}}, 1.8e9, "Hz");
  rows.add("tensor_busy", {{"data", 1}, {"idle", 0}, {"density", 1}}, 0.98, "share");
  rows.add("tensor_busy", {{"data", 1}, {"idle", 0}, {"sustained", 1}}, 1.5e9, "Hz");
  rows.add("tensor_busy", {{"data", 0}, {"idle", 0}, {"density", 1}}, 0.98, "share");
  rows.add("tensor_busy", {{"data", 0}, {"idle", 0}, {"sustained", 1}}, 1.9e9, "Hz");
}

void add_memory(MeasuredRows& rows) {
  for (const double kb : {8, 64, 192})
    rows.add("stream_blocks", {{"hbm", 1}, {"sms", kSms}, {"kb", kb}}, kb * 2e10, "bytes/s");
  for (const double stages : {4, 12})
    for (const double sms : {1, 66, 132})
      rows.add("stream_blocks", {{"hbm", 1}, {"sms", sms}, {"stages", stages}}, sms * stages * 1e9,
               "bytes/s");
  rows.add("stream_boxes", {{"columns", 7168}, {"box_rows", 128}, {"stages", 7}, {"evict_first", 1}}, 4.2e12,
           "bytes/s");
  rows.add("stream_blocks", {{"hbm", 1}, {"beside_boxes", 1}, {"stages", 7}}, 4.4e12, "bytes/s");
  rows.add("stream_blocks", {{"l2_mb", 16.5}}, 8.8e12, "bytes/s");
  rows.add("stream_blocks", {{"l2_mb", 57.8}}, 6.3e12, "bytes/s");
  rows.add("stream_blocks", {{"l2_mb", 16.5}, {"share", 4}}, 1e13, "bytes/s");
  rows.add("stream_blocks", {{"l2_mb", 4.1}, {"sms", 8}}, 61, "bytes/cycle");
  rows.add("write_region", {{"mb", 16}}, 3.2e12, "bytes/s");
  rows.add("copy_region", {{"mb", 2000}}, 4.2e12, "bytes/s");
  for (const double cold : {0, 1})
    rows.add("box_latency", {{"cold", cold}, {"box_rows", 128}}, cold > 0 ? 7e-7 : 3e-7, "s");
  for (const double loads : {1, 3})
    rows.add("loader", {{"sms", 1}, {"box_rows", 8}, {"loads", loads}, {"alone", 0}}, 90 + 40 * loads,
             "cycles");
}

void add_launches(MeasuredRows& rows) {
  rows.add("empty", {{"stream", 1}}, 1.7e-6, "s");
  rows.add("empty", {{"turnover", 1}, {"shared_bytes", 204800}}, 1.5e-7, "s");
  for (const double dependent : {0, 1})
    for (const double shared : {0, 204800})
      rows.add("spin", {{"dependent", dependent}, {"shared_bytes", shared}}, dependent > 0 ? 3e-7 : 8e-7,
               "s");
  rows.add("grid_barrier", {}, 1e-6, "s");
  rows.add("small_kernel", {{"dependent", 1}, {"ctas", kSms}, {"steps", 3}}, 1.3e-6, "s");
  for (const double outputs : {4, 32, 64}) {
    const std::string name = "structure_swap_ab_" + std::to_string(int(2 * outputs));
    rows.add(name, {{"ctas", kSms}, {"tiles", 0}}, 1.1e-6, "s");
    rows.add(name, {{"ctas", kSms}, {"tiles", kSms}}, 3e-6, "s");
    rows.add(name, {{"ctas", 1}, {"outputs", outputs}}, 300 + 7 * outputs, "cycles");
    rows.add(name, {{"ctas", kSms}, {"outputs", outputs}}, 900 + 70 * outputs, "cycles");
  }
}

MeasuredRows all_rows() {
  MeasuredRows rows;
  add_tensor(rows);
  add_memory(rows);
  add_launches(rows);
  return rows;
}

Hardware merged() {
  const auto constants = derive_constants(all_rows(), kSms);
  return parse_hardware(merge_hardware(h200(), "h200", {"NVIDIA H200", kSms, 6e7}, constants, "2026-11-30"),
                        "merged");
}

// Fault: a constant made of the wrong rows: another number of warpgroups, data, SMs, tiles, or unit.
TEST(DeriveConstants, AreTheRowsTheyName) {
  const Hardware hw = merged();
  EXPECT_EQ(hw.wgmma_cycles_ss.at(128), 64);
  EXPECT_EQ(hw.wgmma_cycles_ss.at(8), 18);
  EXPECT_EQ(hw.kblock_promote_cycles.at(128), 228);
  EXPECT_EQ(hw.kblock_promote_cycles_pair.at(128), 610);
  EXPECT_EQ(hw.kblock_promote_cycles_pair.at(256), 456);
  EXPECT_EQ(hw.kblock_barrier_cycles, 77);
  EXPECT_EQ(hw.clock_by_tensor_load.at(0), 1.8e9);
  EXPECT_EQ(hw.clock_by_tensor_load.at(0.98), 1.5e9);
  EXPECT_EQ(hw.hbm_bytes_per_s_by_inflight.at(0), 0);
  EXPECT_EQ(hw.hbm_bytes_per_s_by_sms.at(66), 66 * 12e9);
  EXPECT_EQ(hw.hbm_bytes_per_s_by_sms_shallow.at(66), 66 * 4e9);
  EXPECT_EQ(hw.l2_bytes_per_s_by_footprint.at(16.5), 8.8e12);
  EXPECT_EQ(hw.l2_shared_bytes_per_s, 1e13);
  EXPECT_EQ(hw.producer_cycles_per_load, 40);
  EXPECT_EQ(hw.producer_cycles_per_row, 40);
  EXPECT_EQ(hw.producer_cycles, 90);
  EXPECT_NEAR(hw.prologue_s, 8e-7, 1e-12);
  EXPECT_NEAR(hw.epilogue_cycles, 300, 0.1);
  EXPECT_NEAR(hw.epilogue_cycles_per_output, 7, 0.01);
  EXPECT_NEAR(hw.small_kernel_s, 1e-6 + 8e-7, 1e-10);
}

// Fault: a value that was not measured is lost, or keeps a source that is no longer its own, or has two.
TEST(DeriveConstants, EveryKeyHasOneSource) {
  const auto constants = derive_constants(all_rows(), kSms);
  const std::string text =
      merge_hardware(h200(), "h200", {"NVIDIA H200", kSms, 6e7}, constants, "2026-11-30");
  const auto document = nlohmann::json::parse(text), before = nlohmann::json::parse(h200());
  std::map<std::string, int> sources;
  for (const auto& line : document["sources"])
    for (const auto& key : line["keys"]) ++sources[key.get<std::string>()];
  for (const auto& [key, value] : document.items()) {
    if (key == "name" || key == "source" || key == "date" || key == "sources") continue;
    EXPECT_EQ(sources[key], 1) << key;
  }
  EXPECT_EQ(document["overlap_exponent"], before["overlap_exponent"]);
}

// Fault: a file with a hole that is filled with something, or a crash.
TEST(DeriveConstants, MissingRowsAreNamed) {
  const MeasuredRows whole = all_rows();
  for (std::size_t left_out = 0; left_out < whole.all().size(); ++left_out) {
    MeasuredRows rows;
    for (std::size_t i = 0; i < whole.all().size(); ++i)
      if (i != left_out)
        rows.add(whole.all()[i].kernel, whole.all()[i].parameters, whole.all()[i].value, whole.all()[i].unit);
    try {
      derive_constants(rows, kSms);
    } catch (const BadInput& e) {
      EXPECT_NE(std::string(e.what()).find("no measured row"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(derive_constants({}, kSms), BadInput);
}

// Fault: the rows that a card gave no longer make a hardware file. Its wgmma rows are the closed form
// max(N/2, 16 + N/4) cycles within 1 %, which no other row of that run can imitate.
TEST(DeriveConstants, ARunOnACardMakesAFile) {
  const std::string path = MOE_SOURCE_DIR "/fixtures/measured/h200_calibrate.csv";
  const auto constants = derive_constants(device::parse_measured_rows(read_file(path), path), kSms);
  const std::string text =
      merge_hardware(h200(), "h200", {"NVIDIA H200", kSms, 6e7}, constants, "2026-11-30");
  const Hardware hw = parse_hardware(text, "merged");
  for (const auto& [n, cycles] : hw.wgmma_cycles_ss.points)
    EXPECT_NEAR(cycles, std::max(n / 2, 16 + n / 4), 0.01 * cycles) << n;
  EXPECT_NEAR(hw.boost_hz, 1.98e9, 0.01e9);
  EXPECT_NEAR(hw.hbm_bytes_per_s_by_inflight.at(192), 4.65e12, 0.1e12);
}

// Fault: two runs that differ are called equal.
TEST(DeriveConstants, TwoRunsAreCompared) {
  MeasuredRows a, b;
  a.add("empty", {{"stream", 1}}, 1.0, "s");
  b.add("empty", {{"stream", 1}}, 1.03, "s");
  a.add("grid_barrier", {}, 1.0, "s");
  b.add("grid_barrier", {}, 1.001, "s");
  EXPECT_NEAR(worst_difference(a, b), 0.03 / 1.03, 1e-9);
  const std::string text = two_runs(a, b, 0.02);
  EXPECT_NE(text.find("2 rows in both runs, 1 differ by more than 2.0 %, the worst by 2.9 %"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("empty stream=1 (s)"), std::string::npos);
  EXPECT_EQ(text.find("grid_barrier"), std::string::npos);
}

// Fault: old and new are exchanged, or a curve is compared at other places than its own.
TEST(DeriveConstants, OldStandsBesideNew) {
  const std::string text = old_against_new(
      h200(), "h200", {{"launch_s", 3.468e-6, {}, "r"}, {"wgmma_cycles_ss", 0, {{128, 32.04}}, "r"}});
  EXPECT_NE(text.find("+100.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("-50.0 %"), std::string::npos) << text;
}

MeasuredRows one_row(double value) {
  MeasuredRows rows;
  rows.add("spin", {{"n", 8}}, value, "s");
  return rows;
}

// Fault: a value that an outlier moves, or that falls to one of two rhythms by chance.
TEST(MeasuredRounds, AreSummedUpByTheirMiddleHalf) {
  EXPECT_DOUBLE_EQ(middle_mean({3}), 3);
  EXPECT_DOUBLE_EQ(middle_mean({1, 3}), 2);
  EXPECT_DOUBLE_EQ(middle_mean({1000, 2, 4, 0}), 3);
  EXPECT_DOUBLE_EQ(middle_mean({0, 1, 2}), 1);
  EXPECT_DOUBLE_EQ(middle_mean({0, 6, 6, 6, 9, 1000}), (0.5 * 6 + 6 + 6 + 0.5 * 9) / 3);
  EXPECT_DOUBLE_EQ(middle_mean({10, 20, 10, 20, 10, 20, 10, 20}), 15);
  MeasuredRounds rounds;
  for (const double value : {2.0, 4.0, 1000.0, 0.0}) rounds.add(one_row(value));
  ASSERT_EQ(rounds.typical().all().size(), 1u);
  EXPECT_DOUBLE_EQ(rounds.typical().all()[0].value, 3);
  EXPECT_EQ(rounds.typical().all()[0].unit, "s");
}

// Fault: a run that ends while its halves still disagree, or never ends.
TEST(MeasuredRounds, KnowWhetherTheyAreSteady) {
  MeasuredRounds rounds;
  EXPECT_EQ(rounds.unsteady(0.01), 0);
  for (int i = 0; i < 3; ++i) {
    rounds.add(one_row(100));
    EXPECT_EQ(rounds.unsteady(0.01), 1);
  }
  rounds.add(one_row(103));
  EXPECT_EQ(rounds.unsteady(0.01), 1);
  EXPECT_EQ(rounds.unsteady(0.02), 0);
  rounds.add(one_row(100.5));
  for (int i = 0; i < 12; ++i) rounds.add(one_row(100.4));
  EXPECT_EQ(rounds.unsteady(0.01), 0);
  MeasuredRows other = one_row(1);
  other.add("spin", {}, 1, "s");
  EXPECT_THROW(rounds.add(other), BadInput);
}

// Fault: a row that gets lost between its rounds and the file, or that is read when it is gone.
TEST(MeasuredRounds, OfAWholeCalibrationGiveEveryRow) {
  device::test::WritesDown machine;
  std::ostringstream progress;
  const MeasuredRows rows = measure_in_rounds(machine, 0, progress);
  MeasuredRows once;
  device::CalibrationBench bench(machine);
  for (const auto measure : {device::measure_tensor, device::measure_memory, device::measure_launch,
                             device::measure_structure, device::measure_clock})
    measure(bench, once);
  EXPECT_EQ(device::to_csv(rows), device::to_csv(once));
  EXPECT_FALSE(derive_constants(rows, kSms).empty());
  EXPECT_NE(progress.str().find("memory: 8 rounds"), std::string::npos) << progress.str();
}

}  // namespace
}  // namespace moe::harness
