// Can Nsight Compute run here, and what does it print? It needs a card, the program `ncu` and the right to
// read counters.
#pragma once
#include <string>
#include <vector>

namespace moe::harness {

/// The path of `program` among the folders of PATH; empty where it is in none.
std::string find_program(const std::string& program);

/// Runs words[0] (a path) with the others and returns its standard output; its standard error goes to ours.
/// Throws MachineFailure where it cannot start or ends otherwise than with 0.
std::string output_of(const std::vector<std::string>& words);

}  // namespace moe::harness
