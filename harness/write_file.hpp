// How does a report reach its file? Whole or not at all; "-" is standard output. A path that cannot be
// written or a full disk throws MachineFailure in one line.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>

namespace moe::harness {

void write_whole(const std::string& path, std::string_view bytes, std::ostream& standard_output);
/// Throws MachineFailure where what was written to standard output did not arrive.
void flush_output(std::ostream& standard_output);

}  // namespace moe::harness
