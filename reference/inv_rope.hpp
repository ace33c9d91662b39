// What must inv_rope_quant give? Codes and scales of every head, and the zeros in the padding of the scales
// (fixtures/README.md, "inv_rope_quant, to the bit").
#pragma once
#include <cstdint>
#include <span>

#include "reference/interval.hpp"
#include "reference/truth.hpp"

namespace moe::reference {

/// One head's 512 values after the inverse rotation of the last 64, fp32: with `cos_sin` a row of 32 cosines
/// and 32 sines, other = x[i ^ 1], even i: fma(x, cos, other * sin), odd i: fma(x, cos, -(other * sin)).
void exact_inv_rope(std::span<const std::uint16_t> o, std::span<const float> cos_sin, std::span<float> y);

/// Exponent byte of the scale of a group whose largest magnitude is `amax`: the smallest power of two that is
/// at least max(amax, 1e-10) * fl(1/448).
std::uint8_t inv_rope_exponent(float amax);

/// What any fp32 evaluation of a rotated value may give: two products and a sum, fused or not.
Interval inv_rope_interval(double x, double other, double cos, double sin);

/// o_codes (rows g * tokens + t of heads / groups * 512 columns) and o_scale: f32 (rows g * 4 hpg + quarter,
/// columns t of the padded tokens) or ue8m0 (rows (g * hpg + head) * padded + t of 4 columns). Codes are
/// bounded under the kernel's own scales where it gave any. Bits are those of the contract, whatever the
/// Semantics: all presets agree.
StageTruth inv_rope_truth(const Problem&, StageTensors, const TruthOptions&);

}  // namespace moe::reference
