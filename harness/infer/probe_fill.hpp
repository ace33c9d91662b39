// What fills the layer of each probe (probes.hpp)? One function a probe; each leaves everything else as it is
// in a blank layer.
#pragma once
#include <vector>

#include "harness/infer/probe_inputs.hpp"

namespace moe::harness {

/// Peak of exact rows: code 448 at the scale 2^-8, which every formula gives to the bit.
inline constexpr float kExactPeak = 1.75f, kExactScale = 0x1p-8f;

/// The last group of every row holds nothing but its peak and, at hidden - 2, the number 1.
void fill_constants(ProbeInputs& in);
/// Rows whose scales are kExactScale: values `(8 .. 14) / 8`, peaks, constants.
void fill_exact_rows(ProbeInputs& in);
/// Where the activation clamps its operands gates stay below this.
float gate_factor(const MoeShape& shape);

/// Any finite e4m3 value: 18 powers of two.
float wide_value(ProbeRandom& random);
/// An e4m3 value in [1, 2).
float code_value(ProbeRandom& random);
/// 0 .. n - 1 in some order.
std::vector<int> permutation(int n, ProbeRandom& random);
/// A weight scale under which two of the orders (act first, weight first, product first) round p * a * w to
/// different bf16 values, near `middle` (half way between two); `which` says which two. 0 where there is
/// none.
float telling_scale(ProbeRandom& random, float p, float a, double middle, int which);

void fill_ties(ProbeInputs& in, int number);
void fill_tiny(ProbeInputs& in, int number);
void fill_gates(ProbeInputs& in);
void fill_combine(ProbeInputs& in);
void fill_orders(ProbeInputs& in, int number);
void fill_chains(ProbeInputs& in);
void fill_rounding(ProbeInputs& in);
/// Normal data; routing weights of 24 bits.
void fill_ordinary(ProbeInputs& in);

}  // namespace moe::harness
