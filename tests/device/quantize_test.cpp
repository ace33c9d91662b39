// quantize and act_quant against the written formulas, row by row, for every scheme.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/session/pipeline.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

constexpr QuantKind kKinds[] = {QuantKind::tensor_static, QuantKind::tensor_dynamic, QuantKind::token_channel,
                                QuantKind::block128};

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

float scale_for(float amax, bool power_of_two) {
  const float scale = std::max(amax, 1e-10f) / 448.0f;
  return power_of_two ? std::exp2(std::ceil(std::log2(scale))) : scale;
}

/// The formulas of the moeproof Semantics on [rows, columns] fp32 values.
Quantized quantized_by_formula(const std::vector<float>& x, std::int64_t rows, std::int64_t columns,
                               const QuantScheme& quant, float given) {
  Quantized q{std::vector<std::uint8_t>(x.size()), {}};
  const auto amax = [&](std::int64_t first, std::int64_t count) {
    float largest = 0;
    for (std::int64_t i = first; i < first + count; ++i)
      largest = std::max(largest, std::fabs(x[std::size_t(i)]));
    return largest;
  };
  const std::int64_t group = quant.block() ? 128 : quant.tensor() ? rows * columns : columns;
  for (std::int64_t first = 0; first < rows * columns; first += group) {
    const bool power = quant.scale_format == ScaleFormat::ue8m0;
    const float scale = quant.kind == QuantKind::tensor_static ? given : scale_for(amax(first, group), power);
    const float inverse = 1.0f / scale;
    q.scales.push_back(scale);
    for (std::int64_t i = first; i < first + group; ++i)
      q.codes[std::size_t(i)] = encode_e4m3(x[std::size_t(i)] * inverse);
  }
  return q;
}

TensorSet inputs_of(const char* name, std::int64_t rows, std::int64_t columns,
                    const std::vector<std::uint16_t>& bits, const char* scale_name, float given) {
  TensorSet inputs;
  Tensor values(name, DType::bf16, {rows, columns}), scale(scale_name, DType::f32, {1});
  std::memcpy(values.data(), bits.data(), values.bytes());
  scale.as<float>()[0] = given;
  inputs.add(std::move(values));
  inputs.add(std::move(scale));
  return inputs;
}

template <class T>
std::vector<T> values_of(const TensorSet& set, const char* name) {
  const auto span = set.at(name).as<T>();
  return {span.begin(), span.end()};
}

void run_stages(Machine& machine, const Pipeline& pipeline) {
  bool dependent = false;
  for (const Stage& stage : pipeline.stages) {
    stage.launch({}, dependent);
    dependent = true;
  }
  machine.synchronize();
}

Problem drawn_problem(QuantKind kind, std::uint64_t seed) {
  Problem p;
  p.quant.kind = kind;
  if (kind == QuantKind::block128 && noise(seed, 1) % 2) p.quant.scale_format = ScaleFormat::ue8m0;
  p.shape.tokens = 1 + noise(seed, 2) % 5;
  p.shape.experts = 4;
  p.shape.top_k = 1 + int(noise(seed, 3) % 2);
  // block scales need whole blocks; the others take any size, also rows that no 16-byte access fits
  const auto any = std::int64_t(1 + noise(seed, 4) % 1400);
  p.shape.hidden = p.shape.intermediate = kind == QuantKind::block128 ? round_up(any, 128) : any;
  return p;
}

// Would catch: an amax over the wrong columns, a floor or rounding of the scale in another place, division
// instead of multiplication by the inverse, a tail of a row left out, a tensor maximum that misses a row.
RC_GTEST_PROP(Quantize, EqualsTheFormula, ()) {
  const QuantKind kind = *rc::gen::elementOf(std::vector<QuantKind>(std::begin(kKinds), std::end(kKinds)));
  const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  Case c;
  c.problem = drawn_problem(kind, seed);
  const std::int64_t rows = c.problem.shape.tokens, columns = c.problem.shape.hidden;
  std::vector<std::uint16_t> bits = noise_bf16(seed, rows * columns);
  if (noise(seed, 5) % 3 == 0)
    std::fill_n(bits.begin(), std::min<std::int64_t>(columns, 256), std::uint16_t(0));  // a dead block
  const float given = 0.01f;
  const auto machine = emulated_machine();
  const Pipeline pipeline =
      build_quantize(*machine, c, inputs_of("hidden", rows, columns, bits, "a1_scale", given));
  run_stages(*machine, pipeline);
  TensorSet out;
  pipeline.collect(out);
  std::vector<float> x;
  for (std::uint16_t b : bits) x.push_back(decode_bf16(b));
  const Quantized want = quantized_by_formula(x, rows, columns, c.problem.quant, given);
  RC_ASSERT(values_of<float>(out, "x_scale") == want.scales);
  RC_ASSERT(values_of<std::uint8_t>(out, "x_codes") == want.codes);
  RC_ASSERT(machine->take_reports().empty());
}

float exp_by_recipe(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float n = std::nearbyint(x * 1.44269504f);
  float r = std::fmaf(n, -0.693145752f, x);
  r = std::fmaf(n, -1.42860677e-6f, r);
  float p = 1.0f / 720.0f;
  for (float c : {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f}) p = std::fmaf(p, r, c);
  return std::ldexp(p, int(n));
}

float activated(const MoeShape& s, float g, float u) {
  switch (s.activation) {
    case Activation::silu_mul:
      return g / (1.0f + exp_by_recipe(-g)) * u;
    case Activation::silu_mul_clamped: {
      const float limit = float(s.limit), gate = std::min(g, limit), up = std::clamp(u, -limit, limit);
      return gate / (1.0f + exp_by_recipe(-(float(s.alpha) * gate))) * (up + float(s.beta));
    }
    case Activation::gelu_tanh_mul: {
      const float cube = 0.044715f * g * g * g, inner = 0.797884561f * (g + cube);
      return 0.5f * g * (1.0f + (1.0f - 2.0f / (exp_by_recipe(2.0f * inner) + 1.0f))) * u;
    }
    case Activation::relu2:
      break;
  }
  const float m = std::max(g, 0.0f);
  return m * m;
}

// Would catch: gate and up exchanged, a rounding to bf16 in between, another exp, a clamp on the wrong side.
RC_GTEST_PROP(ActQuant, EqualsTheFormula, ()) {
  const QuantKind kind = *rc::gen::elementOf(std::vector<QuantKind>(std::begin(kKinds), std::end(kKinds)));
  const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  Case c;
  c.problem = drawn_problem(kind, seed);
  MoeShape& s = c.problem.shape;
  s.activation = Activation(noise(seed, 6) % 4);
  if (s.activation == Activation::silu_mul_clamped) {
    s.limit = 7;
    s.alpha = 1.702;
    s.beta = 1;
  }
  const std::int64_t rows = s.pairs(), columns = s.intermediate, width = s.up_rows();
  const std::vector<std::uint16_t> bits = noise_bf16(seed, rows * width);
  const float given = 0.02f;
  const auto machine = emulated_machine();
  const Pipeline pipeline =
      build_act_quant(*machine, c, inputs_of("gemm1", rows, width, bits, "a2_scale", given));
  run_stages(*machine, pipeline);
  TensorSet out;
  pipeline.collect(out);
  std::vector<float> x;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const float up = s.gated() ? decode_bf16(bits[std::size_t(r * width + columns + i)]) : 0.0f;
      x.push_back(activated(s, decode_bf16(bits[std::size_t(r * width + i)]), up));
    }
  }
  const Quantized want = quantized_by_formula(x, rows, columns, c.problem.quant, given);
  RC_ASSERT(values_of<float>(out, "act_scale") == want.scales);
  RC_ASSERT(values_of<std::uint8_t>(out, "act_codes") == want.codes);
  RC_ASSERT(machine->take_reports().empty());
}

}  // namespace
}  // namespace moe::device
