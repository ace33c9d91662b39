// What do the fuzz programs share? Each has one entry point (libFuzzer's) that gives bytes to one reader of
// users' text. A reader accepts them or throws BadInput of one line; anything else that leaves it, and any
// broken promise about what was accepted, is a find.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fixtures/problem/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace moe::fuzz {

/// Ends the program with the reason: the fuzzer keeps the input that led here.
inline void require(bool kept, const char* promise) {
  if (!kept) throw std::logic_error(promise);
}

/// True when `read` accepted its input; a refusal must be one line that says something.
template <class Read>
bool accepted(Read read) {
  try {
    read();
    return true;
  } catch (const BadInput& refusal) {
    const std::string_view line = refusal.what();
    require(!line.empty() && line.find('\n') == std::string_view::npos, "a refusal is one line");
    return false;
  }
}

inline std::string_view as_text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

/// The input as a file with a path, in memory only.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* bytes, std::size_t size) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file_ < 0 || (size > 0 && write(file_, bytes, size) != ssize_t(size)))
      throw MachineFailure("no memory for the file");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace moe::fuzz
