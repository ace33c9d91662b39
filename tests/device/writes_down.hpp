// A card that only writes down what is launched. Test code.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "device/calibrate/calibration_bench.hpp"

namespace moe::device::test {

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

}  // namespace moe::device::test
