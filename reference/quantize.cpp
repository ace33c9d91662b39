#include "reference/quantize.hpp"

#include <algorithm>
#include <cmath>

#include "fixtures/problem/number_formats.hpp"

namespace moe::reference {

QuantRule quant_rule(const Semantics& semantics, const QuantScheme& scheme) {
  return {float(semantics.amax_floor), semantics.scale_formula, semantics.quant_formula, scheme.scale_format};
}

float amax_of(std::span<const float> values) {
  float amax = 0;
  for (const float x : values) amax = std::fmax(amax, std::fabs(x));
  return amax;
}

float scale_of_amax(const QuantRule& rule, float amax) {
  const float a = std::fmax(amax, rule.amax_floor);
  const float s = rule.scale_formula == ScaleFormula::divide ? a / kE4M3Max : a * (1.0f / kE4M3Max);
  return rule.scale_format == ScaleFormat::ue8m0 ? decode_ue8m0(encode_ue8m0_up(s)) : s;
}

std::uint8_t quantize_static(const QuantRule& rule, float x, float scale) {
  if (rule.quant_formula == QuantFormula::divide) return encode_e4m3(x / scale);
  const float inverse = 1.0f / scale;
  return encode_e4m3(x * inverse);
}

std::uint8_t quantize_value(const QuantRule& rule, float x, float amax, float scale) {
  if (rule.quant_formula != QuantFormula::multiply_ratio || rule.scale_format == ScaleFormat::ue8m0)
    return quantize_static(rule, x, scale);
  const float ratio = kE4M3Max / std::fmax(amax, rule.amax_floor);
  return encode_e4m3(x * ratio);
}

void quantize_row(const QuantRule& rule, QuantKind kind, std::span<const float> x, const TensorScale& whole,
                  std::uint8_t* codes, float* scales) {
  if (kind == QuantKind::tensor_static || kind == QuantKind::tensor_dynamic) {
    for (std::size_t i = 0; i < x.size(); ++i)
      codes[i] = kind == QuantKind::tensor_static ? quantize_static(rule, x[i], whole.scale)
                                                  : quantize_value(rule, x[i], whole.amax, whole.scale);
    return;
  }
  const std::size_t width = kind == QuantKind::block128 ? kScaleBlock : x.size();
  for (std::size_t first = 0, group = 0; first < x.size(); first += width, ++group) {
    const auto values = x.subspan(first, std::min(width, x.size() - first));
    const float amax = amax_of(values), scale = scale_of_amax(rule, amax);
    scales[group] = scale;
    for (std::size_t i = 0; i < values.size(); ++i)
      codes[first + i] = quantize_value(rule, values[i], amax, scale);
  }
}

float weighted_input(float x, float weight) {
  const float product = x * weight;
  return decode_bf16(encode_bf16(product));
}

}  // namespace moe::reference
