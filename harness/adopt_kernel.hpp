// Which kernel of a process does a command line mean? One that names no op is filled in from the kernels that
// are there: where one is, or all agree; the kernel that is judged is named.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/kernel_info.hpp"
#include "harness/options.hpp"

namespace moe::harness {

/// True where the kernel takes an op, contract and scheme like the problem's; an empty list of its own is
/// any.
bool takes(const KernelInfo& kernel, const Problem& problem);

/// Fills op, contract and quant of `o` where they are not given and all of `kernels` that fit what is given
/// (or the one that --kernel names) agree in one, and the kernel: the first that takes all of it. Returns
/// what was filled in, for the heading: "kernel my_gemm: op grouped_gemm, contract masked"; of several
/// kernels their names too; empty where nothing was to fill in. A --case line stays as it is. `option` is how
/// a kernel is named ("--kernel"); `any_op`: cases of all ops follow, each of which finds its kernel by
/// itself. Throws BadInput where --kernel names none of them, and where no op is given and the kernels are of
/// several, none of which is the default's.
std::string adopt_kernel(ProblemOptions& o, const std::vector<KernelInfo>& kernels,
                         const std::string& option = "--kernel", bool any_op = false);

}  // namespace moe::harness
