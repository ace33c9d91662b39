// Which scale and which e4m3 code does a value get? Every step in fp32 with the roundings of Semantics, so
// that codes and scales are equal to the bit to an implementation that follows the same formulas.
//
//   a = max(amax over the group, floor)         amax in fp32; NaN is ignored, as fmaxf does
//   s = a / 448  |  a * fl(1/448)               ScaleFormula
//   s = 2^ceil(log2 s)                          only ScaleFormat::ue8m0
//   q = e4m3(x / s)  |  e4m3(x * fl(1 / s))  |  e4m3(x * fl(448 / a))      QuantFormula
//
// With ue8m0 or a given (static) scale there is no ratio 448 / a, and multiply_ratio means multiply_inverse.
#pragma once
#include <cstdint>
#include <span>

#include "fixtures/problem/quant_scheme.hpp"
#include "fixtures/problem/semantics.hpp"

namespace moe::reference {

struct QuantRule {
  float amax_floor = 0;
  ScaleFormula scale_formula = ScaleFormula::divide;
  QuantFormula quant_formula = QuantFormula::multiply_inverse;
  ScaleFormat scale_format = ScaleFormat::f32;
};
QuantRule quant_rule(const Semantics& semantics, const QuantScheme& scheme);

/// Largest magnitude; 0 for an empty group.
float amax_of(std::span<const float> values);
/// s of a group whose largest magnitude is `amax`.
float scale_of_amax(const QuantRule& rule, float amax);
/// Code of x in a group of that amax and scale.
std::uint8_t quantize_value(const QuantRule& rule, float x, float amax, float scale);
/// Code of x under a scale that was given, not derived from an amax.
std::uint8_t quantize_static(const QuantRule& rule, float x, float scale);

/// One row: codes[columns] and its scales (block128: columns / 128 of them; token_channel: one). For the
/// tensor kinds the scale is the caller's: `tensor_amax` of all rows (tensor_dynamic) or `given_scale`
/// (tensor_static).
struct TensorScale {
  float amax = 0, scale = 0;  // of the whole tensor
};
void quantize_row(const QuantRule& rule, QuantKind kind, std::span<const float> x, const TensorScale& whole,
                  std::uint8_t* codes, float* scales);

/// bf16(fl(x * weight)): the activation of a layer whose routing weight multiplies the input.
float weighted_input(float x, float weight);

}  // namespace moe::reference
