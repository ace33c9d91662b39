// What fills the layer of each probe (probes.hpp)? One function a probe; each leaves everything else as it is
// in a blank layer.
#pragma once
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

void fill_ties(ProbeInputs& in, int number);
void fill_tiny(ProbeInputs& in, int number);
void fill_gates(ProbeInputs& in);
void fill_combine(ProbeInputs& in);
void fill_orders(ProbeInputs& in, int number);
void fill_chains(ProbeInputs& in);
/// Normal data; routing weights of 24 bits.
void fill_ordinary(ProbeInputs& in);

}  // namespace moe::harness
