#include "harness/write_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw MachineFailure(fmt::format("cannot write '{}': {}", path, std::strerror(error)));
}

/// Returns 0 or the errno of the first failure.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(std::size_t(written));
  }
  return 0;
}

/// A device or a pipe (/dev/null, /dev/full) cannot be renamed over: it is written in place.
void write_in_place(const std::string& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) fail(path, errno);
  const int error = write_all(file, bytes);
  if (::close(file) != 0 && error == 0) fail(path, errno);
  if (error != 0) fail(path, error);
}

}  // namespace

void write_whole(const std::string& path, std::string_view bytes, std::ostream& standard_output) {
  if (path == "-") {
    standard_output.write(bytes.data(), std::streamsize(bytes.size()));
    if (!standard_output.flush())
      throw MachineFailure("cannot write to standard output (closed pipe or full disk)");
    return;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) fail(path, EISDIR);
    return write_in_place(path, bytes);
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail(path, errno);
  int error = write_all(file, bytes);
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail(path, error);
  }
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  if (!file || file.bad()) throw BadInput(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return std::move(bytes).str();
}

}  // namespace moe::harness
