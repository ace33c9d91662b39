#include "reference/exact/exact_stages.hpp"

#include <algorithm>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/chain.hpp"

// Inlined everywhere: the row loops at the end are compiled twice, for any CPU and with fused multiply-add.
#define MOE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#  define MOE_FMA __attribute__((target("avx2,fma"), optimize("O3")))
#else
#  define MOE_FMA
#endif

namespace moe::reference {
namespace {

MOE_INLINE float round_bf16(float x) { return decode_bf16(encode_bf16(x)); }

MOE_INLINE float recipe_exp(float x) {
  if (x != x) return x;
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = (x * 1.44269504f + magic) - magic;
  float r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = 1.0f / 720;
  for (const float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = __builtin_fmaf(p, r, c);
  // n is an integer in [-126, 127]: added to the exponent of p it multiplies by 2^n
  return bits_float(float_bits(p) + (std::uint32_t(std::int32_t(n)) << 23));
}

MOE_INLINE float logistic_product(float g, float exponent) { return g / (1.0f + recipe_exp(-exponent)); }

MOE_INLINE float gelu_tanh(float g) {
  const float cubic = ((0.044715f * g) * g) * g;
  const float v = 0.797884561f * (g + cubic);
  const float tanh = 1.0f - 2.0f / (recipe_exp(2.0f * v) + 1.0f);
  return (0.5f * g) * (1.0f + tanh);
}

struct Factors {
  float gate, up;
};
MOE_INLINE Factors factors(const MoeShape& shape, float g, float u) {
  switch (shape.activation) {
    case Activation::silu_mul:
      return {logistic_product(g, g), u};
    case Activation::silu_mul_clamped: {
      const float limit = float(shape.limit), gate = g > limit ? limit : g;
      const float up = u > limit ? limit : u < -limit ? -limit : u;
      return {logistic_product(gate, float(shape.alpha) * gate), up + float(shape.beta)};
    }
    case Activation::gelu_tanh_mul:
      return {gelu_tanh(g), u};
    case Activation::relu2:
      break;
  }
  const float positive = g < 0.0f ? 0.0f : g;
  return {positive, positive};
}

MOE_INLINE float activate_one(const MoeShape& shape, const Semantics& semantics, float g, float u) {
  Factors f = factors(shape, g, u);
  const bool gated = shape.activation != Activation::relu2;
  if (gated && semantics.gate_rounding == GateRounding::bf16) f.gate = round_bf16(f.gate);
  const float product = f.gate * f.up;
  return semantics.product_rounding == ProductRounding::bf16 ? round_bf16(product) : product;
}

MOE_INLINE void activation_row(const MoeShape& shape, const Semantics& semantics, const std::uint16_t* gemm1,
                               float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float u = shape.gated() ? decode_bf16(gemm1[n + i]) : 0.0f;
    out[i] = activate_one(shape, semantics, decode_bf16(gemm1[i]), u);
  }
}
MOE_FMA void activation_row_fma(const MoeShape& shape, const Semantics& semantics, const std::uint16_t* gemm1,
                                float* out, std::size_t n) {
  activation_row(shape, semantics, gemm1, out, n);
}

MOE_INLINE void fused_add(float weight, const std::uint16_t* y, float* acc, std::size_t n) {
  for (std::size_t h = 0; h < n; ++h) acc[h] = __builtin_fmaf(weight, decode_bf16(y[h]), acc[h]);
}
MOE_FMA void fused_add_fma(float weight, const std::uint16_t* y, float* acc, std::size_t n) {
  fused_add(weight, y, acc, n);
}

bool has_fma() { return best_level() != Level::plain; }

}  // namespace

float exact_exp(float x) { return recipe_exp(x); }

float exact_activate(const MoeShape& shape, const Semantics& semantics, float g, float u) {
  return activate_one(shape, semantics, g, u);
}

void exact_activation_row(const MoeShape& shape, const Semantics& semantics,
                          std::span<const std::uint16_t> gemm1, std::span<float> activated) {
  const auto row = has_fma() ? activation_row_fma : activation_row;
  row(shape, semantics, gemm1.data(), activated.data(), activated.size());
}

void exact_act_quant_row(const MoeShape& shape, const Semantics& semantics, const QuantScheme& scheme,
                         std::span<const std::uint16_t> gemm1, const TensorScale& whole, std::uint8_t* codes,
                         float* scales) {
  std::vector<float> activated(shape.gated() ? gemm1.size() / 2 : gemm1.size());
  exact_activation_row(shape, semantics, gemm1, activated);
  quantize_row(quant_rule(semantics, scheme), scheme.kind, activated, whole, codes, scales);
}

void exact_quantize_row(const Semantics& semantics, const QuantScheme& scheme,
                        std::span<const std::uint16_t> hidden, const float* weight, const TensorScale& whole,
                        std::uint8_t* codes, float* scales) {
  std::vector<float> x(hidden.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float value = decode_bf16(hidden[i]);
    x[i] = weight != nullptr ? weighted_input(value, *weight) : value;
  }
  quantize_row(quant_rule(semantics, scheme), scheme.kind, x, whole, codes, scales);
}

TensorScale exact_tensor_scale(const Semantics& semantics, const QuantScheme& scheme, float amax) {
  return {amax, scale_of_amax(quant_rule(semantics, scheme), amax)};
}

void exact_combine_row(const Semantics& semantics, std::span<const std::uint16_t* const> rows,
                       std::span<const float> weights, std::span<std::uint16_t> out) {
  std::vector<float> acc(out.size());
  const auto fused = has_fma() ? fused_add_fma : fused_add;
  for (std::size_t slot = 0; slot < rows.size(); ++slot) {
    const std::uint16_t* y = rows[slot];
    if (y == nullptr) continue;
    if (weights.empty())
      for (std::size_t h = 0; h < acc.size(); ++h) acc[h] = acc[h] + decode_bf16(y[h]);
    else if (semantics.combine_fma)
      fused(weights[slot], y, acc.data(), acc.size());
    else
      for (std::size_t h = 0; h < acc.size(); ++h) acc[h] = acc[h] + weights[slot] * decode_bf16(y[h]);
  }
  for (std::size_t h = 0; h < acc.size(); ++h) out[h] = encode_bf16(acc[h]);
}

}  // namespace moe::reference
