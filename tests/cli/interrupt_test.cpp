// The built program under signals: no half file, no process left behind, the end that a shell expects.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

class Interrupt : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("moeproof_interrupt_" + std::to_string(GetParam()) + "_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Starts the program in `folder_`, its output into files there, signals as an interactive shell leaves
  /// them.
  pid_t start(std::vector<std::string> words) const {
    words.insert(words.begin(), MOE_BINARY);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    const int sink = ::open("/dev/null", O_RDWR);
    ::dup2(sink, STDOUT_FILENO), ::dup2(sink, STDERR_FILENO);
    if (::chdir(folder_.c_str()) == 0) ::execv(MOE_BINARY, argv.data());
    ::_exit(127);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  bool has_temporary() const {
    for (const std::string& name : files())
      if (name.ends_with(".tmp")) return true;
    return false;
  }
  /// Waits until `there` holds; false where the process ended first.
  static bool wait_for(pid_t pid, const std::function<bool()>& there) {
    while (!there()) {
      siginfo_t info{};
      if (::waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid)
        return false;
      ::usleep(100);
    }
    return true;
  }
  static int end_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }
  fs::path folder_;
};

/// The child of `parent`, or 0.
pid_t child_of(pid_t parent) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    const auto behind_name = line.rfind(')');  // pid (name) state ppid ...
    if (behind_name == std::string::npos || behind_name + 4 > line.size()) continue;
    if (std::atoi(line.c_str() + behind_name + 4) == parent) return pid_t(std::stoi(name));
  }
  return 0;
}

// Catches: FILE.PID.tmp left behind, a half FILE, an exit status that hides the signal. The program is
// stopped when its temporary is seen, so that the signal does find it in mid-write; one that was faster is
// tried again.
TEST_P(Interrupt, MidWriteLeavesNoFile) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t pid = start({"reference", "--hidden", "4096", "--intermediate", "512", "--experts", "8",
                             "--top-k", "8", "--tokens", "1", "--out", "layer.safetensors"});
    ASSERT_GT(pid, 0);
    const bool seen = wait_for(pid, [&] { return has_temporary(); });
    if (seen) ::kill(pid, SIGSTOP), ::usleep(1000);
    const bool writing = seen && has_temporary();
    ::kill(pid, GetParam());
    ::kill(pid, SIGCONT);
    const int status = end_of(pid);
    if (!writing) continue;
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
    EXPECT_EQ(files(), std::vector<std::string>{});
    return;
  }
  FAIL() << "20 runs were over before they could be stopped in mid-write";
}

// Catches: a worker process that outlives its program, a report or temporary of a run that did not end, a
// status that hides the signal.
TEST_P(Interrupt, MidRunLeavesNoWorkerAndNoFile) {
  const pid_t pid = start({"check", "--trials", "100000", "--isolate", "--json", "report.json", "--quiet"});
  ASSERT_GT(pid, 0);
  pid_t worker = 0;
  ASSERT_TRUE(wait_for(pid, [&] { return (worker = child_of(pid)) != 0; }));
  ::usleep(50'000);  // into its work
  ::kill(pid, GetParam());
  const int status = end_of(pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
  for (int i = 0; i < 10'000 && ::kill(worker, 0) == 0; ++i) ::usleep(1000);
  EXPECT_NE(::kill(worker, 0), 0) << "the worker " << worker << " is still there";
  EXPECT_EQ(files(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) { return std::string("signal") + std::to_string(info.param); });

// Catches: a handler that takes a signal which the caller had switched off (nohup, a background job of a
// shell).
TEST(IgnoredSignals, StayIgnored) {
  const int raw = std::system((std::string("trap '' HUP; ") + MOE_BINARY +
                               " check --trials 40 --executor reference --quiet --allow mistrusted"
                               " 2>/dev/null >/dev/null & pid=$!; sleep 0.05; kill -HUP $pid; wait $pid")
                                  .c_str());
  EXPECT_EQ(raw, 0);
}

}  // namespace
