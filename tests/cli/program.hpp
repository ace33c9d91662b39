// Runs the built program as a user does, in a folder of its own. Test code.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace moe::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Outcome {
  int status = -1;
  std::string out, err;
};

class Program : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              (std::string("moeproof_cli_") + info->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text_of(const fs::path& path) const {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Outcome run(const std::string& words) const {
    const std::string out = folder_ / "stdout", err = folder_ / "stderr";
    const int raw =
        std::system((std::string(MOE_BINARY) + " " + words + " >'" + out + "' 2>'" + err + "'").c_str());
    return {WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), text_of(out), text_of(err)};
  }
  /// The exit status, nothing on stdout, exactly one line on stderr that holds `words`.
  void refuses(const std::string& command, const std::string& words, int status = 2) const {
    const Outcome o = run(command);
    EXPECT_EQ(o.status, status) << command << "\n" << o.err;
    EXPECT_EQ(o.out, "") << command;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << command << "\n" << o.err;
    EXPECT_TRUE(o.err.starts_with("moeproof: ")) << o.err;
    EXPECT_NE(o.err.find(words), std::string::npos) << command << "\n" << o.err;
  }
  fs::path folder_;
};

inline const std::string kSizes = "--hidden 256 --intermediate 128 --experts 4 --top-k 2 ",
                         kSmall = kSizes + "--tokens 9 ";

}  // namespace moe::cli
