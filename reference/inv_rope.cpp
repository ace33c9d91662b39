#include "reference/inv_rope.hpp"

#include <algorithm>
#include <cmath>

#include "fixtures/problem/number_formats.hpp"
#include "reference/operands.hpp"
#include "reference/parallel.hpp"
#include "reference/quant_bound.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

constexpr std::int64_t kDim = HeadShape::kDim, kRope = HeadShape::kRope, kPairs = kRope / 2,
                       kPlain = kDim - kRope, kGroups = kDim / kScaleBlock;
constexpr float kFloor = 1e-10f;

/// Where the elements of head (g, h) of token t lie in the two outputs.
struct Layout {
  std::int64_t tokens, padded, groups, heads;  // heads of one group
  bool packed;

  explicit Layout(const Problem& p)
      : tokens(p.shape.tokens),
        padded(p.padded_tokens()),
        groups(p.local_groups()),
        heads(p.local_heads() / p.local_groups()),
        packed(p.quant.scale_format == ScaleFormat::ue8m0) {}

  std::size_t codes(std::int64_t g, std::int64_t h, std::int64_t t) const {
    return std::size_t((g * tokens + t) * heads * kDim + h * kDim);
  }
  std::size_t scale(std::int64_t g, std::int64_t h, std::int64_t t, std::int64_t quarter) const {
    const std::int64_t at = packed ? ((g * heads + h) * padded + t) * kGroups + quarter
                                   : (g * heads * kGroups + h * kGroups + quarter) * padded + t;
    return std::size_t(at);
  }
  std::int64_t scales() const { return groups * heads * kGroups * padded; }
};

struct Stage {
  Layout at;
  const Problem& problem;
  const TruthOptions& options;
  const Tensor &o, &positions, &cos_sin;
  const Tensor* own = nullptr;  // the kernel's scales
  TensorTruth &codes, &scales;

  std::span<const std::uint16_t> head(std::int64_t g, std::int64_t h, std::int64_t t) const {
    const std::int64_t row = t * at.groups * at.heads + g * at.heads + h;
    return o.as<std::uint16_t>().subspan(std::size_t(row * kDim), std::size_t(kDim));
  }
  std::span<const float> turns(std::int64_t t) const {
    const std::int64_t position = positions.as<std::int64_t>()[std::size_t(t)];
    return cos_sin.as<float>().subspan(std::size_t(position * kRope), std::size_t(kRope));
  }
};

float own_scale(const Stage& s, std::size_t at, float otherwise) {
  if (s.own == nullptr || s.own->dtype() != s.scales.type || std::int64_t(at) >= s.own->size())
    return otherwise;
  return s.at.packed ? decode_ue8m0(s.own->as<std::uint8_t>()[at]) : s.own->as<float>()[at];
}

void set_bits(const Stage& s, std::int64_t g, std::int64_t h, std::int64_t t) {
  float y[kDim];
  exact_inv_rope(s.head(g, h, t), s.turns(t), y);
  const auto codes = s.codes.bits.as<std::uint8_t>().subspan(s.at.codes(g, h, t), std::size_t(kDim));
  for (std::int64_t q = 0; q < kGroups; ++q) {
    float amax = 0;
    for (std::int64_t i = q * kScaleBlock; i < (q + 1) * kScaleBlock; ++i)
      amax = std::fmax(amax, std::fabs(y[i]));
    const std::uint8_t exponent = inv_rope_exponent(amax);
    const float scale = decode_ue8m0(exponent);
    const std::size_t at = s.at.scale(g, h, t, q);
    if (s.at.packed)
      s.scales.bits.as<std::uint8_t>()[at] = exponent;
    else
      s.scales.bits.as<float>()[at] = scale;
    for (std::int64_t i = q * kScaleBlock; i < (q + 1) * kScaleBlock; ++i)
      codes[std::size_t(i)] = encode_e4m3(y[i] / scale);  // exact but for subnormals far below a code
  }
}

void set_bounds(const Stage& s, std::int64_t g, std::int64_t h, std::int64_t t) {
  const auto o = s.head(g, h, t);
  const auto turns = s.turns(t);
  const QuantScheme power_of_two{QuantKind::block128, ScaleFormat::ue8m0, ScaleLayout::mn_major};
  float spec[kDim];
  exact_inv_rope(o, turns, spec);
  for (std::int64_t q = 0; q < kGroups; ++q) {
    Interval y[kScaleBlock], amax{0, 0};
    float spec_amax = 0;
    for (std::int64_t j = 0; j < kScaleBlock; ++j) {
      const std::int64_t i = q * kScaleBlock + j, pair = (i - kPlain) / 2;
      const double x = decode_bf16(o[std::size_t(i)]);
      y[j] = i < kPlain ? Interval{x, x}
                        : inv_rope_interval(x, decode_bf16(o[std::size_t(i ^ 1)]), turns[std::size_t(pair)],
                                            (i % 2 ? -1.0 : 1.0) * turns[std::size_t(kPairs + pair)]);
      amax.low = std::fmax(amax.low, y[j].mignitude());
      amax.high = std::fmax(amax.high, y[j].magnitude());
      spec_amax = std::fmax(spec_amax, std::fabs(spec[i]));
    }
    const Interval allowed = scale_interval(nullptr, power_of_two, amax);
    const std::size_t at = s.at.scale(g, h, t, q);
    const float want = decode_ue8m0(inv_rope_exponent(spec_amax));
    s.scales.low[at] = std::fmin(float(allowed.low), want);
    s.scales.high[at] = std::fmax(float(allowed.high), want);
    s.scales.want[at] = want;
    const float used = own_scale(s, at, want);
    for (std::int64_t j = 0; j < kScaleBlock; ++j) {
      const std::size_t element = s.at.codes(g, h, t) + std::size_t(q * kScaleBlock + j);
      const Interval code = code_interval(y[j], used);
      s.codes.low[element] = float(code.low);
      s.codes.high[element] = float(code.high);
      s.codes.want[element] = std::clamp(float(round_e4m3(double(spec[q * kScaleBlock + j]) / used)),
                                         float(code.low), float(code.high));
    }
  }
}

TensorTruth truth_of(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                     const TruthOptions& options) {
  TensorTruth truth;
  truth.tensor = std::move(name);
  truth.type = type;
  truth.columns = columns;
  truth.rows = all_rows(rows);
  if (options.bits) truth.bits = Tensor(truth.tensor, type, {rows, columns});  // zeros: what padding holds
  if (options.bounds)
    for (auto* v : {&truth.want, &truth.low, &truth.high})
      v->assign(std::size_t(rows * columns), type == DType::ue8m0 ? decode_ue8m0(0) : 0.0f);
  return truth;
}

}  // namespace

void exact_inv_rope(std::span<const std::uint16_t> o, std::span<const float> cos_sin, std::span<float> y) {
  for (std::int64_t i = 0; i < kDim; ++i) {
    const float x = decode_bf16(o[std::size_t(i)]);
    y[std::size_t(i)] = x;
    if (i < kPlain) continue;
    const std::int64_t pair = (i - kPlain) / 2;
    const float other = decode_bf16(o[std::size_t(i ^ 1)]) * cos_sin[std::size_t(kPairs + pair)];
    y[std::size_t(i)] = __builtin_fmaf(x, cos_sin[std::size_t(pair)], i % 2 ? -other : other);
  }
}

std::uint8_t inv_rope_exponent(float amax) {
  constexpr float kInverse = 1.0f / 448.0f;
  return encode_ue8m0_up(std::fmax(amax, kFloor) * kInverse);
}

Interval inv_rope_interval(double x, double other, double cos, double sin) {
  constexpr double kUnit = 0x1p-24;
  const double first = x * cos, second = other * sin;  // exact: 8 + 24 bits
  // (1 + u)^2 on each product, and what the smallest subnormal adds to a product and to the sum
  const double error = 2.01 * kUnit * (std::fabs(first) + std::fabs(second)) + 3 * 0x1p-149;
  return around(first + second, error);
}

StageTruth inv_rope_truth(const Problem& problem, StageTensors tensors, const TruthOptions& options) {
  const Layout at(problem);
  const std::int64_t columns = at.packed ? kGroups : at.padded;
  StageTruth truth{"inv_rope_quant",
                   {truth_of("o_codes", DType::e4m3, at.groups * at.tokens, at.heads * kDim, options),
                    truth_of("o_scale", at.packed ? DType::ue8m0 : DType::f32,
                             columns > 0 ? at.scales() / columns : 0, columns, options)}};
  const Stage stage{at,
                    problem,
                    options,
                    tensors.inputs.at("o"),
                    tensors.inputs.at("positions"),
                    tensors.inputs.at("cos_sin"),
                    tensors.outputs.find("o_scale"),
                    truth.tensors[0],
                    truth.tensors[1]};
  parallel_for(at.tokens, options.threads, [&](std::int64_t t) {
    for (std::int64_t g = 0; g < at.groups; ++g)
      for (std::int64_t h = 0; h < at.heads; ++h) {
        if (options.bits) set_bits(stage, g, h, t);
        if (options.bounds) set_bounds(stage, g, h, t);
      }
  });
  return truth;
}

}  // namespace moe::reference
