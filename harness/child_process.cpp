#include "harness/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "fixtures/problem/errors.hpp"

extern char** environ;

namespace moe::harness {
namespace {

using Clock = std::chrono::steady_clock;

int checked(int result, const char* what) {
  if (result < 0)
    throw MachineFailure(fmt::format("cannot start a worker: {}: {}", what, std::strerror(errno)));
  return result;
}

/// The same file behind a number that no worker's fixed descriptor collides with.
Descriptor moved_up(int fd) {
  Descriptor low(fd);
  return Descriptor(checked(::fcntl(fd, F_DUPFD_CLOEXEC, 16), "fcntl"));
}

pid_t spawn(const std::string& program, const std::vector<std::string>& words, const int (&fds)[3]) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const int targets[3] = {kWorkerSocket, kWorkerInput, kWorkerOutput};
  for (int i = 0; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, fds[i], targets[i]);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw MachineFailure(fmt::format("cannot start a worker: {}: {}", program, std::strerror(error)));
  return pid;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& words) {
  int pair[2];
  checked(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
  socket_ = moved_up(pair[0]);
  const Descriptor theirs = moved_up(pair[1]);
  input_ = moved_up(checked(::memfd_create("moeproof input", MFD_CLOEXEC), "memfd_create"));
  output_ = moved_up(checked(::memfd_create("moeproof output", MFD_CLOEXEC), "memfd_create"));
  pid_ = spawn(program, words, {theirs.get(), input_.get(), output_.get()});
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) end_child(true);
}

std::string ChildProcess::end_child(bool kill) {
  if (kill) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status))
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

void ChildProcess::lose(const std::string& why, bool hung) {
  const std::string how = end_child(hung);
  throw WorkerLost(hung ? why : fmt::format("the worker process {}", how), hung);
}

std::string ChildProcess::ask(std::string_view line, double seconds) {
  if (pid_ < 0) throw MachineFailure("the worker process is gone");
  const std::string message = std::string(line) + "\n";
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t n = ::send(socket_.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) lose("", false);
    sent += std::size_t(n);
  }
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      const std::string answer = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return answer;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) lose(fmt::format("no answer within {:g} s; the worker process was ended", seconds), true);
    pollfd wait{socket_.get(), POLLIN, 0};
    if (::poll(&wait, 1, int(std::min<long long>(left, 60'000))) <= 0) continue;
    char bytes[65536];
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) lose("", false);
    pending_.append(bytes, std::size_t(n));
  }
}

}  // namespace moe::harness
