#include "harness/ncu/run_ncu.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "fixtures/problem/errors.hpp"
#include "harness/values.hpp"

extern char** environ;

namespace moe::harness {
namespace {

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t n = 0; (n = ::read(fd, piece, sizeof piece)) > 0;) text.append(piece, std::size_t(n));
  return text;
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace

std::string find_program(const std::string& program) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return {};
  for (const std::string& folder : split(path, ':')) {
    const std::string full = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(full.c_str(), X_OK) == 0) return full;
  }
  return {};
}

std::string output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe(ends) != 0)
    throw MachineFailure(fmt::format("no pipe for {}: {}", words[0], std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text = error == 0 ? read_all(ends[0]) : "";
  ::close(ends[0]);
  if (error != 0)
    throw MachineFailure(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw MachineFailure(fmt::format("{} ended with {}", words[0], how_it_ended(status)));
  return text;
}

}  // namespace moe::harness
