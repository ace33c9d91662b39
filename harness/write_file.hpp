// How does a report reach its file? Whole or not at all: written beside it under a temporary name, flushed to
// the disk and renamed. "-" is standard output. A path that cannot be written or a full disk throws
// MachineFailure in one line.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>

namespace moe::harness {

void write_whole(const std::string& path, std::string_view bytes, std::ostream& standard_output);
/// All bytes of a file; throws BadInput where it cannot be read.
std::string read_whole(const std::string& path);

}  // namespace moe::harness
