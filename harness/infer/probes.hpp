// Which inputs tell implementations apart? A few designed layers for which the values of a Semantics field
// give different bits; each isolates one question, so that it can be answered from the layer's output alone,
// too:
//
//   ties      x / s, x * (1 / s) and x * (448 / amax), with either scale formula, on values half way between
//   two
//             codes; what multiplies behind it is one-hot, with power-of-two weights
//   tiny      groups below, between and above the known amax floors, and groups of zeros
//   gates     gates of 7 to 15, where silu(g) is no bf16 value but does not depend on how exp is made
//   combine   slots that cancel under weights with 24 bits
//   orders    blocks that cancel but for the rounding of their scales (block128); results half way between
//   two
//             bf16 values, with scales of 24 bits (other schemes)
//   chains    sums of widely spread products whose true value is zero: what is left is the accumulator's own
//   rounding  two products a sum, whose sum every accumulator holds to the bit: a quarter or three quarters
//   of
//             the way between two bf16 values; right is the nearest, whatever else a kernel does
//   ordinary  normal data: what was found must hold where nothing was designed
//
// A grouped GEMM by itself is asked by gemm_probes.hpp, the small ops by op_probes.hpp.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

struct Probe {
  std::string name;
  Case trial;
  TensorSet inputs;
  bool one_hot = false;  // see stage_key
};

/// A small case of the op of `c` (6 tokens, K 640 or 1152, 256 columns or activations, 4 experts) with its
/// scheme, activation and choice; top_k 3, or 1 where the layer's is.
Case small_case(const Case& c);
/// The op of `c` itself with 6 tokens, for a kernel that takes no other sizes.
Case own_case(const Case& c);

/// The op of `c` itself with all of its tokens, for a kernel that may round otherwise at other sizes.
Case full_case(const Case& c);

/// The probes of a case that one of these gave, in the order in which they divide the space
/// fastest.
std::vector<Probe> make_probes(const Case& layer);

}  // namespace moe::harness
