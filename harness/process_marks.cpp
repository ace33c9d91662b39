#include "harness/process_marks.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

extern char** environ;

namespace moe::harness {
namespace {

constexpr std::string_view kVariable = "MOEPROOF_CHILD=";
/// Rounds over /proc: whoever forks faster than this is not ended.
constexpr int kRounds = 20;

/// The number that `text` is; 0 where it is none.
pid_t number(const char* text) {
  long value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + (*text - '0');
  return *text == '\0' ? pid_t(value) : 0;
}

/// Calls visit(pid) for each process that there is, without memory of the heap.
template <class Visit>
void for_each_process(Visit&& visit) {
  struct Entry {  // linux_dirent64
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[1];
  };
  const int folder = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) char bytes[8192];
  for (long got; (got = ::syscall(SYS_getdents64, folder, bytes, sizeof(bytes))) > 0;)
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(bytes + at);
      if (const pid_t pid = number(entry->name); pid > 0) visit(pid);
      at += entry->length;
    }
  ::close(folder);
}

/// "/proc/PID/environ"
void path_of(pid_t pid, char (&path)[40]) {
  char digits[16];
  int count = 0;
  for (; pid > 0; pid /= 10) digits[count++] = char('0' + pid % 10);
  char* at = path;
  std::memcpy(at, "/proc/", 6);
  at += 6;
  while (count > 0) *at++ = digits[--count];
  std::memcpy(at, "/environ", 9);
}

/// True where the environment of a process holds `mark`, wherever in it.
bool bears(pid_t pid, std::string_view mark) {
  char path[40], bytes[4096];
  path_of(pid, path);
  const std::size_t overlap = std::min(mark.size(), sizeof(bytes) / 2) - 1;  // a mark is never empty
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool found = false;
  std::size_t kept = 0;  // the end of the last piece, where a mark may begin
  for (ssize_t got; !found && (got = ::read(file, bytes + kept, sizeof(bytes) - kept)) > 0;) {
    const std::string_view text(bytes, kept + std::size_t(got));
    found = text.find(mark) != std::string_view::npos;
    kept = std::min(text.size(), overlap);
    std::memmove(bytes, bytes + text.size() - kept, kept);
  }
  ::close(file);
  return found;
}

}  // namespace

std::string mark_of_all() { return ";moeproof-child-" + std::to_string(::getpid()) + "."; }

std::string new_mark() {
  static std::atomic<int> number{0};
  return mark_of_all() + std::to_string(++number) + ";";
}

std::vector<std::string> marked_environment(const std::string& mark) {
  std::vector<std::string> all;
  std::string marks(kVariable);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(kVariable))
      marks = text;
    else
      all.emplace_back(text);
  }
  all.push_back(marks + mark);
  return all;
}

void kill_marked(const char* mark) noexcept {
  const pid_t self = ::getpid();
  bool any = true;
  for (int round = 0; round < kRounds && any; ++round) {
    any = false;
    for_each_process([&](pid_t pid) {
      if (pid == self || !bears(pid, mark)) return;
      any = ::kill(pid, SIGKILL) == 0 || any;
    });
    if (any) ::usleep(1000);  // until they are gone: a killed one shows no environment
  }
}

}  // namespace moe::harness
