// Does a kernel that only bounds judge keep its factors and sums whole? Under a wide sum a scale that is cut
// to bf16 or tf32, a subnormal code that is flushed, or a sum that is rounded before its scales multiply it,
// lies inside the bound; exact data have power-of-two scales, and show none of them. The twin of such a case
// has its op, sizes, load and choice, weights of which each row holds one code or two, and scales of 24 bits:
// each sum is one product, or two that every accumulator adds to the bit, and what every right kernel gives
// is known to within 16 fp32 roundings in front of the output's own (reference/sparse_sum.hpp).
#pragma once
#include <cstdint>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/routing.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// `c` with the data mode that its twin is told to have.
Case scales_twin(const Case& c);

/// The inputs of a twin: normal data's, and
///   weights      one code in each row, at any k; every finite code but zero. With `pairs` half of the rows
///                hold two codes in one k-block, whose products make sums of 9 to 14 bits
///   a_codes      every finite code but zero
///   scales       fraction bits that a cut to 7 or 10 of them moves by 0.4 of the last that is left (none
///                where the scheme's are powers of two)
///   hidden       values from the group's largest down to what e4m3 has a subnormal code for; the largest is
///                3 modulo 7 units, so that over 448 it has such fraction bits, too; two activations in each
///                128 read such a value with a large gate, and with `pairs` GEMM 2 sums them
///   biases       zeros
/// `pairs`: not for a layer that shows `out` alone, of whose activations no code is known.
TensorSet scales_twin_inputs(const Case& twin, const Routing& routing, bool pairs, int threads);

}  // namespace moe::harness
