// How does a long self-test go on where an earlier one ended? A file of JSON lines, one a finished row,
// behind a line that says with how many seeds and cases; files of several shards may be put together into
// one.
#pragma once
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

/// The rows of the file, which is begun where there is none; a line that a killed program had begun to write
/// is cut off. Throws BadInput where it is no such file or has other `options`, MachineFailure where it
/// cannot be written.
std::vector<KillRow> open_kill_file(const std::string& path, const std::string& options);
/// Appends a row. Throws MachineFailure.
void append_row(const std::string& path, const KillRow& row);

}  // namespace moe::harness
