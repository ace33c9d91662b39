#include "harness/write_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("moeproof_write_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::size_t files() const {
    return std::size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
  std::ostringstream out_;
};

TEST_F(WriteFile, AFileIsReplacedWhole) {
  const std::string path = folder_ / "report.json";
  write_whole(path, "long old text", out_);
  write_whole(path, "new", out_);
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, DashIsStandardOutput) {
  write_whole("-", "text", out_);
  EXPECT_EQ(out_.str(), "text");
  EXPECT_EQ(files(), 0u);
}

// Would catch a half report, or a temporary file left behind, on a path that cannot be written.
TEST_F(WriteFile, FailuresLeaveNothing) {
  EXPECT_THROW(write_whole(folder_ / "no" / "such.json", "x", out_), MachineFailure);
  EXPECT_THROW(write_whole(folder_, "x", out_), MachineFailure);
  EXPECT_THROW(write_whole("/dev/full", std::string(1 << 20, 'x'), out_), MachineFailure);
  EXPECT_EQ(files(), 0u);
}

TEST_F(WriteFile, AClosedStreamIsReported) {
  out_.setstate(std::ios::badbit);
  EXPECT_THROW(write_whole("-", "x", out_), MachineFailure);
}

}  // namespace
}  // namespace moe::harness
