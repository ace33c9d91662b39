// Which kernels does the calibration launch, and how are its rows written?
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "device/kernels/variants.hpp"
#include "fixtures/problem/errors.hpp"
#include "tests/device/writes_down.hpp"

namespace moe::device {
namespace {

using test::WritesDown;

MeasuredRows all_rows(WritesDown& machine) {
  MeasuredRows rows;
  CalibrationBench bench(machine);
  measure_tensor(bench, rows);
  measure_memory(bench, rows);
  measure_launch(bench, rows);
  measure_structure(bench, rows);
  measure_clock(bench, rows);
  return rows;
}

// Fault: a constant of the model that rests on the time of a kernel which the model predicts.
TEST(Calibrate, LaunchesNoKernelOfALayer) {
  WritesDown machine;
  const MeasuredRows rows = all_rows(machine);
  std::set<std::string_view> own;
  for (const CalibrateEntry& entry : kCalibrateKernels) own.insert(entry.name);
  for (const Variant& v : kVariants) EXPECT_FALSE(own.contains(v.name)) << v.name;
  for (const std::string_view name : own)
    for (const char* word : {"gemm", "moe", "layer", "topk", "quant", "combine"})
      EXPECT_EQ(name.find(word), std::string_view::npos) << name;
  for (const int variant : machine.launched)
    EXPECT_TRUE(variant >= 0 && variant < int(kCalibrateKernels.size())) << variant;
  EXPECT_EQ(machine.launched.size(), kCalibrateKernels.size()) << "a kernel that nothing launches";
  for (const MeasuredRow& row : rows.all()) EXPECT_TRUE(own.contains(row.kernel)) << row.kernel;
}

// Fault: a launch that the driver refuses (too much shared memory, another parameter struct), seen only on a
// card.
TEST(Calibrate, LaunchesFitTheCard) {
  WritesDown machine;
  all_rows(machine);
  EXPECT_EQ(machine.wrong_size, 0u);
}

// Fault: a row that is measured but cannot be told from another, so that find() returns the wrong one.
TEST(Calibrate, RowsAreTold) {
  WritesDown machine;
  const MeasuredRows rows = all_rows(machine);
  std::set<std::string> seen;
  for (const MeasuredRow& row : rows.all()) {
    std::string name = row.kernel + row.unit;
    for (const auto& [key, value] : row.parameters) name += " " + key + "=" + std::to_string(value);
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

// Fault: rows that change on their way through a file.
TEST(Calibrate, RowsReadBack) {
  WritesDown machine;
  const MeasuredRows rows = all_rows(machine), back = parse_measured_rows(to_csv(rows), "rows.csv");
  ASSERT_EQ(back.all().size(), rows.all().size());
  EXPECT_EQ(to_csv(back), to_csv(rows));
}

// Fault: a damaged file that crashes or is read as something else.
TEST(Calibrate, DamagedRowsAreRefused) {
  for (const char* text :
       {"", "a,b\n", "kernel,parameters,value,unit\nx,y,1,s\n", "kernel,parameters,value,unit\nx,y=1,z,s\n",
        "kernel,parameters,value,unit\nx,y=1,1\n", "kernel,parameters,value,unit\nx,y=,1,s\n"})
    EXPECT_THROW(parse_measured_rows(text, "rows.csv"), BadInput) << text;
}

}  // namespace
}  // namespace moe::device
