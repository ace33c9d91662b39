#include "harness/write_file.hpp"

#include <ostream>

#include "fixtures/files/whole_file.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {

void write_whole(const std::string& path, std::string_view bytes, std::ostream& standard_output) {
  if (path == "-") {
    standard_output.write(bytes.data(), std::streamsize(bytes.size()));
    return flush_output(standard_output);
  }
  WholeFile file(path);
  file.write(bytes);
  file.commit();
}

void flush_output(std::ostream& standard_output) {
  if (!standard_output.flush())
    throw MachineFailure("cannot write to standard output (closed pipe or full disk)");
}

}  // namespace moe::harness
