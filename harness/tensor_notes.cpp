#include "harness/tensor_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

constexpr std::uint8_t kLargestCode = 0x7E;     // 448 without its sign; magnitudes ascend with the code
constexpr double kSaturatesBeyond = 464;        // halfway to the next step: less rounds to 448
constexpr std::int64_t kMostCodes = 4'000'000;  // of weights that are looked at

std::uint8_t largest(const std::uint8_t* codes, std::int64_t count) {
  std::uint8_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t magnitude = codes[i] & 0x7F;
    if (magnitude <= kLargestCode) most = std::max(most, magnitude);  // a NaN is none
  }
  return most;
}

const std::uint8_t* codes_of(const Tensor& t) { return reinterpret_cast<const std::uint8_t*>(t.data()); }

void add(std::string& text, const std::string& note) { text += (text.empty() ? "" : "; ") + note; }

/// Values of the layer's input that a static scale cuts to 448.
std::string saturated_input(const Problem& p, const TensorSet& inputs) {
  if (p.shape.weight_on_input || !inputs.has("hidden") || !inputs.has("a1_scale")) return {};
  const auto hidden = inputs.at("hidden").as<std::uint16_t>();
  const auto scale = inputs.at("a1_scale").as<float>();
  if (hidden.empty() || scale.empty()) return {};
  const double limit = kSaturatesBeyond * scale[0];
  const auto cut = std::ranges::count_if(
      hidden, [&](std::uint16_t bits) { return std::abs(double(decode_bf16(bits))) > limit; });
  if (cut == 0) return {};
  return fmt::format("{:.2g} % of the input saturate under a1_scale",
                     100.0 * double(cut) / double(hidden.size()));
}

/// Activated values at the largest code, under a static scale.
std::string saturated_activation(const TensorSet& outputs) {
  if (!outputs.has("act_codes") || outputs.at("act_codes").empty()) return {};
  const Tensor& t = outputs.at("act_codes");
  const std::uint8_t* codes = codes_of(t);
  const auto at =
      std::count_if(codes, codes + t.size(), [](std::uint8_t c) { return (c & 0x7F) == kLargestCode; });
  const double share = double(at) / double(t.size());
  if (share < 1e-3) return {};
  return fmt::format("{:.2g} % of act_codes are +-448: a2_scale cuts them", 100 * share);
}

/// The amax of a tensor becomes 448; where no code is, the maximum was over something else as well.
std::string unneeded_scale(const TensorSet& outputs, const char* codes, const char* scale) {
  if (!outputs.has(codes) || outputs.at(codes).empty()) return {};
  const std::uint8_t most = largest(codes_of(outputs.at(codes)), outputs.at(codes).size());
  if (most == 0 || most >= kLargestCode) return {};
  return fmt::format(
      "{} is larger than any row needs, the largest of {} is {:g} of 448: an amax over padding?", scale,
      codes, decode_e4m3(most));
}

/// Experts whose gate and up halves share a scale that fits one of them alone.
std::string merged_halves(const Problem& p, const TensorSet& inputs) {
  if (p.shape.activation == Activation::relu2 || !inputs.has("w13")) return {};
  const Tensor& w = inputs.at("w13");
  if (w.shape().size() != 3 || w.empty()) return {};
  const std::int64_t half = w.dim(1) / 2 * w.dim(2);
  for (std::int64_t e = 0; e < w.dim(0) && (e + 1) * 2 * half <= std::max(kMostCodes, 2 * half); ++e) {
    const std::uint8_t gate = largest(codes_of(w) + 2 * e * half, half),
                       up = largest(codes_of(w) + (2 * e + 1) * half, half);
    const float less = decode_e4m3(std::min(gate, up));
    if (std::max(gate, up) > 0 && less * 2 < decode_e4m3(std::max(gate, up)))
      return fmt::format("gate and up of expert {} share a scale that fits {}: {} reaches {:g} of 448", e,
                         gate > up ? "gate" : "up", gate > up ? "up" : "gate", less);
  }
  return {};
}

}  // namespace

std::string tensor_notes(const Case& c, const TensorSet& inputs, const TensorSet& outputs) {
  const Problem& p = c.problem;
  std::string text;
  if (!p.quant.tensor()) return text;
  const bool fixed = p.quant.kind == QuantKind::tensor_static,
             exact = p.quant.scale_format == ScaleFormat::f32;
  for (const std::string& note : {fixed   ? saturated_input(p, inputs)
                                  : exact ? unneeded_scale(outputs, "x_codes", "x_scale")
                                          : "",
                                  fixed   ? saturated_activation(outputs)
                                  : exact ? unneeded_scale(outputs, "act_codes", "act_scale")
                                          : "",
                                  merged_halves(p, inputs)})
    if (!note.empty()) add(text, note);
  return text;
}

}  // namespace moe::harness
