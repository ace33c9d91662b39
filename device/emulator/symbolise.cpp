#include "device/emulator/symbolise.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>

extern char** environ;

namespace moe::device::emulator {
namespace {

std::string hexadecimal(std::uint32_t pc) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", pc);
  return text;
}

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, std::size_t(n)) : std::string();
}

/// Standard output of a program, empty when it cannot be started. No shell, no signals handled.
std::string output_of(std::vector<std::string> command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& s : command) argv.push_back(s.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const bool started = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; started && (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, std::size_t(n));
  close(ends[0]);
  if (started) waitpid(child, nullptr, 0);
  return text;
}

/// "dir/device/kernels/x.cuh:88 (discriminator 2)" -> "device/kernels/x.cuh:88"; "" for unknown places.
std::string tidy(std::string line) {
  line = line.substr(0, line.find(" ("));
  if (line.starts_with("??") || line.ends_with(":0") || line.ends_with(":?")) return "";
  line = std::filesystem::path(line).lexically_normal().string();
  while (line.starts_with("../")) line = line.substr(3);  // relative to the build folder
  return line;
}

bool in_layer(const std::string& place) {
  return place.find("device/hopper/emulated") != std::string::npos ||
         place.find("fixtures/problem/") != std::string::npos;
}

}  // namespace

void Symboliser::prepare(const std::vector<std::uint32_t>& pcs) {
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t pc : pcs)
    if (pc != 0 && !known_.contains(pc) && std::find(wanted.begin(), wanted.end(), pc) == wanted.end())
      wanted.push_back(pc);
  if (wanted.empty()) return;
  std::vector<std::string> command{"addr2line", "-a", "-i", "-e", own_program()};
  for (std::uint32_t pc : wanted) command.push_back(hexadecimal(pc - 1));  // the call, not what follows it
  std::istringstream lines(output_of(std::move(command)));
  std::string line, best;
  std::size_t at = 0;  // addresses seen
  bool settled = false;
  const auto finish = [&] {
    if (at > 0 && at <= wanted.size() && !best.empty()) known_[wanted[at - 1]] = best;
    best.clear();
    settled = false;
  };
  while (std::getline(lines, line)) {
    if (line.starts_with("0x")) {  // -a prints the address in front of its frames
      finish();
      ++at;
      continue;
    }
    const std::string place = tidy(line);
    if (settled || place.empty()) continue;
    best = place;
    settled =
        !in_layer(place);  // innermost frame first: the first one outside the layer is the kernel's line
  }
  finish();
  for (std::uint32_t pc : wanted) known_.try_emplace(pc, "pc " + hexadecimal(pc));
}

std::string Symboliser::where(std::uint32_t pc) const {
  const auto it = known_.find(pc);
  return it != known_.end() ? it->second : pc == 0 ? "launch" : "pc " + hexadecimal(pc);
}

void Symboliser::collect(const std::string& text, std::vector<std::uint32_t>& pcs) {
  for (std::size_t i = text.find('\1'); i != std::string::npos; i = text.find('\1', i + 1)) {
    std::uint32_t pc = 0;
    std::from_chars(text.data() + i + 1, text.data() + text.size(), pc);
    pcs.push_back(pc);
  }
}

std::string Symboliser::resolve(const std::string& text) const {
  std::string out;
  std::size_t from = 0;
  for (std::size_t i; (i = text.find('\1', from)) != std::string::npos;) {
    out.append(text, from, i - from);
    std::uint32_t pc = 0;
    std::from_chars(text.data() + i + 1, text.data() + text.size(), pc);
    out += where(pc);
    from = text.find('\2', i) + 1;
  }
  return out.append(text, from);
}

}  // namespace moe::device::emulator
