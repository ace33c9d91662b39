// What are the bits of the stages beside the GEMMs, under a declared Semantics? Each function serves one row;
// every line of a formula is one fp32 operation rounded to nearest even (exp: fixtures/README.md, "exp, to
// the bit").
#pragma once
#include <cstdint>
#include <span>

#include "fixtures/problem/moe_shape.hpp"
#include "fixtures/problem/semantics.hpp"
#include "reference/quantize.hpp"

namespace moe::reference {

/// exp by the project's recipe, for any x (clamped to [-87, 88]); below 3 ulp of the true exp. NaN gives NaN.
float exact_exp(float x);

/// The activation of one pair of values (`up` is ignored by relu2), with the roundings of GateRounding and
/// ProductRounding:
///   silu_mul          s = g / (1 + exp(-g))                                    s * u
///   silu_mul_clamped  g' = min(g, limit), u' = clamp(u, +-limit), s = g' / (1 + exp(-(alpha * g')))    s *
///   (u' + beta) gelu_tanh_mul     v = 0.797884561 * (g + 0.044715 * g * g * g), s = 0.5 * g * (1 + (1 - 2 /
///   (exp(2 v) + 1)))    s * u relu2             m = max(g, 0)                                            m *
///   m
/// GateRounding::bf16 rounds s, ProductRounding::bf16 the result.
float exact_activate(const MoeShape& shape, const Semantics& semantics, float g, float u);

/// gemm1 row bf16 [U] (gate, then up) -> activated [I], what is quantised next.
void exact_activation_row(const MoeShape& shape, const Semantics& semantics,
                          std::span<const std::uint16_t> gemm1, std::span<float> activated);

/// The whole stage for one row: activation, then scale and codes (quantize.hpp). `whole` is read by the
/// tensor kinds only: the amax over exact_activation_row of all rows, with its scale, or the given scale.
void exact_act_quant_row(const MoeShape& shape, const Semantics& semantics, const QuantScheme& scheme,
                         std::span<const std::uint16_t> gemm1, const TensorScale& whole, std::uint8_t* codes,
                         float* scales);

/// hidden row bf16 [H] -> codes and scales. `weight`: the routing weight where it multiplies the input (the
/// product is rounded to bf16 first), else null.
void exact_quantize_row(const Semantics& semantics, const QuantScheme& scheme,
                        std::span<const std::uint16_t> hidden, const float* weight, const TensorScale& whole,
                        std::uint8_t* codes, float* scales);

/// The scale of a whole tensor (tensor_dynamic): of the largest magnitude of all rows.
TensorScale exact_tensor_scale(const Semantics& semantics, const QuantScheme& scheme, float amax);

/// out[h] = bf16 of the sum over the slots in order, from +0: fma(w, y, acc), or acc + w * y without
/// combine_fma. `weights` is empty where the weight multiplies elsewhere: acc + y. A null row adds nothing.
void exact_combine_row(const Semantics& semantics, std::span<const std::uint16_t* const> rows,
                       std::span<const float> weights, std::span<std::uint16_t> out);

}  // namespace moe::reference
