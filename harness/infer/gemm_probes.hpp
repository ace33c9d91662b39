// Which inputs of a grouped GEMM tell implementations apart? Codes and scales are inputs there, so that each
// question can be put straight, under every contract:
//
//   chains    sums of widely spread products whose true value is zero: what is left is the accumulator's own
//   orders    blocks that cancel but for the rounding of their scales (block128); one product half way
//   between
//             two bf16 values, under scales of 24 bits (other schemes)
//   ordinary  normal data: what was found must hold where nothing was designed
#pragma once
#include <vector>

#include "harness/infer/probes.hpp"

namespace moe::harness {

/// Of a case of op=grouped_gemm that small_case or own_case gave.
std::vector<Probe> make_gemm_probes(const Case& c);

}  // namespace moe::harness
