// What is meant by a command line that names a process and no op? A process that serves one kernel is asked
// about that: its op, contract and scheme fill in what the line leaves open.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/kernel_info.hpp"
#include "harness/options.hpp"

namespace moe::harness {

/// Fills op, contract and quant of `o` from the only kernel among `kernels` (or the one that --kernel names)
/// where they are not given and the kernel has one of each. Returns what was filled in, for the heading:
/// "kernel my_gemm: op grouped_gemm, contract masked"; empty where nothing was. A --case line stays as it is.
std::string adopt_kernel(ProblemOptions& o, const std::vector<KernelInfo>& kernels);

}  // namespace moe::harness
