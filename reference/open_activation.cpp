#include "reference/open_activation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "reference/activation.hpp"
#include "reference/parallel.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

constexpr double kUlp = 0x1p-23;  // at most, relative to a normal number
/// 2 ulp from the rounded quotient, and one more rounding where a sigmoid is multiplied.
constexpr double kFastDivision = 2.5 * kUlp + 0x1p-24;
constexpr FloatRange kNothing{std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::quiet_NaN()};

/// exp(-x) in fp32: doubles around every result.
Interval exp_interval(ExpForm form, double x) {
  const double e = std::exp(-x);
  if (std::isinf(e)) return {e, e};
  if (e < 0x1p-126) return {0, 0x1p-126};  // subnormal results may be flushed
  const double ulps = 2.5 + (form == ExpForm::fast ? std::floor(1.173 * std::fabs(x)) : 0);
  Interval range = widen({e, e}, ulps * kUlp, 0);
  if (range.low < 0x1p-126) range.low = 0;
  return range;
}

/// g / (1 + e), as a quotient or as g times a reciprocal, both of which descend as e grows; `fast`: by a
/// division of 2 ulp. Magnitudes, then g's sign.
FloatRange quotient_range(ExpForm form, float g, Interval e) {
  // 1 + e is one rounding of a sum that double holds
  const float least = float(1 + e.low), most = float(1 + e.high), size = std::fabs(g);
  float low = std::fmin(size / most, size * (1.0f / most));
  float high = std::fmax(size / least, size * (1.0f / least));
  if (form == ExpForm::fast) {
    if (std::isinf(g) && std::isinf(least)) return kNothing;
    low = most > 0x1p126f ? 0 : float(double(size) / most * (1 - kFastDivision));
    high = float(double(size) / least * (1 + kFastDivision));
    if (low < 0x1p-126f) low = 0;                         // flushed
    if (high > 0 && high < 0x1p-126f) high += 0x1p-147f;  // ulps of a subnormal number
  }
  if (!std::signbit(g)) return {low, high};
  // the zero that __fdividef gives for a large divisor has no documented sign
  const bool any_zero = form == ExpForm::fast && most > 0x1p126f;
  return {-high, any_zero ? 0.0f : -low};
}

float to_bf16(float x) { return decode_bf16(encode_bf16(x)); }

FloatRange ordered(float a, float b) {
  // zeros keep their signs: -0 is the lower
  const bool swapped = b < a || (a == b && std::signbit(b));
  return swapped ? FloatRange{b, a} : FloatRange{a, b};
}

float magnitude_low(FloatRange x) { return x.low > 0 ? x.low : x.high < 0 ? -x.high : 0; }

/// fmax skips a NaN, as the quantisers' amax does.
FloatRange amax_range(std::span<const FloatRange> values) {
  FloatRange amax{0, 0};
  for (const FloatRange& x : values) {
    amax.low = std::fmax(amax.low, magnitude_low(x));
    amax.high = std::fmax(amax.high, std::fmax(std::fabs(x.low), std::fabs(x.high)));
  }
  return amax;
}

/// The part of `amax` whose scale is `scale`: scales ascend with it. `amax` itself where there is none.
FloatRange amax_of_scale(const QuantRule& rule, FloatRange amax, float scale) {
  const auto first = [&](auto beyond) {  // of the numbers in amax
    std::uint32_t low = float_bits(amax.low), high = float_bits(amax.high) + 1;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (beyond(scale_of_amax(rule, bits_float(middle))))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  const std::uint32_t from = first([&](float s) { return s >= scale; }),
                      behind = first([&](float s) { return s > scale; });
  return from < behind ? FloatRange{bits_float(from), bits_float(behind - 1)} : amax;
}

/// Codes in the order of their values, -0 before +0.
int order_of(std::uint8_t code) { return code & 0x80 ? -1 - (code & 0x7F) : code; }

struct CodeRange {
  std::uint8_t least = 0, most = 0;
  bool empty = true;
  void hold(std::uint8_t code) {
    if (empty || order_of(code) < order_of(least)) least = code;
    if (empty || order_of(code) > order_of(most)) most = code;
    empty = false;
  }
};

/// How the rows of one stage are quantised.
struct OpenQuantiser {
  QuantRule rule;
  bool given = false;  // the scale is an input
  bool own = false;    // the kernel shows its scale

  CodeRange codes(FloatRange x, FloatRange amax, FloatRange scale) const {
    CodeRange range;
    for (const float value : {x.low, x.high})
      for (const float s : {scale.low, scale.high}) {
        if (given) {
          range.hold(quantize_static(rule, value, s));
          continue;
        }
        for (const float a : {amax.low, amax.high}) range.hold(quantize_value(rule, value, a, s));
      }
    return range;
  }
};

std::vector<FloatRange> row_range(const Problem& p, const Semantics& s, const Tensor& gemm1,
                                  std::int64_t pair) {
  const std::vector<float> in = bf16_row(gemm1, pair);
  const auto columns = std::size_t(p.shape.local_intermediate());
  std::vector<FloatRange> row;
  for (std::size_t i = 0; i < columns; ++i)
    row.push_back(activation_range(p.shape, s, in[i], p.shape.gated() ? in[columns + i] : 0.0f));
  return row;
}

FloatRange whole_amax(const Problem& p, const Semantics& s, const Tensor& gemm1,
                      std::span<const std::int32_t> experts, int threads) {
  std::vector<FloatRange> rows(experts.size());
  parallel_for(std::int64_t(experts.size()), threads, [&](std::int64_t pair) {
    if (experts[std::size_t(pair)] >= 0) rows[std::size_t(pair)] = amax_range(row_range(p, s, gemm1, pair));
  });
  FloatRange amax{0, 0};
  for (const FloatRange& r : rows) amax = {std::fmax(amax.low, r.low), std::fmax(amax.high, r.high)};
  return amax;
}

}  // namespace

bool leaves_exp_open(const MoeShape& shape, const Semantics& s) {
  return s.exp_form != ExpForm::recipe && shape.activation != Activation::relu2;
}

FloatRange activation_range(const MoeShape& shape, const Semantics& s, float g, float u) {
  if (std::isnan(g) || std::isnan(u)) return kNothing;
  if (shape.activation == Activation::gelu_tanh_mul) {
    const Interval x = activate(shape, &s, Interval{g, g}, Interval{u, u});
    return {float(x.low), float(x.high)};
  }
  float up = u, x = g;
  if (shape.activation == Activation::silu_mul_clamped) {
    const auto limit = float(shape.limit);
    g = std::min(g, limit);
    up = std::clamp(u, -limit, limit) + float(shape.beta);
    x = float(shape.alpha) * g;
  }
  FloatRange gate = quotient_range(s.exp_form, g, exp_interval(s.exp_form, x));
  if (s.gate_rounding == GateRounding::bf16) gate = {to_bf16(gate.low), to_bf16(gate.high)};
  FloatRange product = ordered(gate.low * up, gate.high * up);
  if (std::isnan(product.low) || std::isnan(product.high)) return kNothing;
  if (s.product_rounding == ProductRounding::bf16) product = {to_bf16(product.low), to_bf16(product.high)};
  return product;
}

OpenBits open_act_quant(const Problem& p, const Semantics& s, const Tensor& gemm1,
                        std::span<const std::int64_t> pairs, std::span<const std::int32_t> experts,
                        const Tensor* own_scale, float given_scale, int threads) {
  const QuantKind kind = p.quant.kind;
  const std::int64_t columns = p.shape.local_intermediate(), groups = scale_groups(kind, columns);
  const auto rows = std::int64_t(pairs.size());
  const bool whole = p.quant.tensor();
  const OpenQuantiser quantiser{quant_rule(s, p.quant), kind == QuantKind::tensor_static,
                                own_scale != nullptr};
  const auto sized = [&] {
    return QuantisedBits{
        Tensor("codes", DType::e4m3, {rows, columns}),
        Tensor("scales", DType::f32,
               whole ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{rows, groups})};
  };
  OpenBits open{sized(), sized()};
  const auto scales_of = [&](FloatRange amax) {
    return FloatRange{scale_of_amax(quantiser.rule, amax.low), scale_of_amax(quantiser.rule, amax.high)};
  };
  FloatRange all_amax, all_scale{given_scale, given_scale};
  if (kind == QuantKind::tensor_dynamic) {
    all_amax = whole_amax(p, s, gemm1, experts, threads);
    all_scale = scales_of(all_amax);
  }
  if (whole) {
    open.least.scales.as<float>()[0] = all_scale.low;
    open.most.scales.as<float>()[0] = all_scale.high;
  }
  parallel_for(rows, threads, [&](std::int64_t i) {
    const std::vector<FloatRange> row = row_range(p, s, gemm1, pairs[std::size_t(i)]);
    for (std::int64_t g = 0; g < groups; ++g) {
      const ColumnRange range = group_columns(kind, columns, g);
      const auto values = std::span(row).subspan(std::size_t(range.first), std::size_t(range.count));
      FloatRange amax = whole ? all_amax : amax_range(values);
      FloatRange scale = whole ? all_scale : scales_of(amax);
      if (!whole) {
        open.least.scales.as<float>()[std::size_t(i * groups + g)] = scale.low;
        open.most.scales.as<float>()[std::size_t(i * groups + g)] = scale.high;
      }
      if (quantiser.own && !quantiser.given) {
        const float used =
            own_scale->as<float>()[whole ? 0 : std::size_t(pairs[std::size_t(i)] * groups + g)];
        amax = amax_of_scale(quantiser.rule, amax, used);
        scale = {used, used};
      }
      for (std::size_t c = 0; c < values.size(); ++c) {
        const CodeRange codes = quantiser.codes(values[c], amax, scale);
        const std::size_t at = std::size_t(i * columns + range.first) + c;
        open.least.codes.as<std::uint8_t>()[at] = codes.least;
        open.most.codes.as<std::uint8_t>()[at] = codes.most;
      }
    }
  });
  return open;
}

}  // namespace moe::reference
