// Which kernels does the calibration launch, and how are its rows written?
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "device/calibrate/calibration_bench.hpp"
#include "device/kernels/variants.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::device {
namespace {

/// Writes down what is launched; every word that a kernel would report is 1000, every time 1 ms.
class WritesDown : public Machine {
 public:
  std::set<int> launched;
  std::size_t wrong_size = 0;

  std::string_view name() const override { return "nothing"; }
  int sms() const override { return 132; }
  Address allocate(std::size_t bytes, BufferUse, std::string) override {
    next_ += (bytes + 1023) / 1024 * 1024;
    return next_ - (bytes + 1023) / 1024 * 1024;
  }
  void release_all() override {}
  void upload(Address, const void*, std::size_t) override {}
  void download(void* to, Address, std::size_t bytes) override {
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
      const std::uint64_t word = 1000;
      std::memcpy(static_cast<char*>(to) + i, &word, 8);
    }
  }
  void fill(Address, std::uint8_t, std::size_t) override {}
  hopper::TensorMap tensor_map(Address, std::uint64_t rows, std::uint64_t, std::uint64_t, unsigned box_rows,
                               hopper::Swizzle) override {
    EXPECT_GE(rows, box_rows);
    EXPECT_LE(box_rows, 256u);
    return {};
  }
  void launch(int variant, const LaunchConfig& config, const void*, std::size_t bytes) override {
    launched.insert(variant);
    wrong_size += bytes != sizeof(CalibrateParams) || config.shared_bytes > 232448 || config.block > 512;
  }
  void synchronize() override {}
  std::vector<std::string> take_reports() override { return {}; }
  bool take_counts(Counts&) override { return false; }
  int record(const std::function<void()>& body) override {
    body();
    return 0;
  }
  void replay(int) override {}
  double time_of(const std::function<void()>& body) override {
    body();
    return 1e-3;
  }
  void flush_l2() override {}

 private:
  Address next_ = 1 << 20;
};

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
