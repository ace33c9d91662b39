// What does the activation between the two GEMMs give? As a real number, with the roundings that Semantics
// declares, and as an interval that encloses every fp32 evaluation.
//
//   silu_mul          silu(g) * u                     silu(g) = g / (1 + exp(-g))
//   silu_mul_clamped  g' = min(g, limit), u' = clamp(u, +-limit): g' / (1 + exp(-alpha g')) * (u' + beta)
//   gelu_tanh_mul     0.5 g (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))) * u
//   relu2             max(g, 0)^2                     no gate: the only operand is passed as g
#pragma once
#include "fixtures/problem/moe_shape.hpp"
#include "fixtures/problem/semantics.hpp"
#include "reference/interval.hpp"

namespace moe::reference {

/// The real number, in double.
double activate(const MoeShape& shape, double g, double u);
/// Double with the declared roundings to bf16 behind the gate and behind the product.
double activate(const MoeShape& shape, const Semantics& semantics, double g, double u);
/// What an fp32 evaluation may give for any g and u of the intervals. `semantics` null: with or without each
/// bf16 rounding. Covers libm, the fast exp of CUDA and the recipe of fixtures/README.md.
/// Without semantics, or with `any_form`, also g/2 (1 + tanh(g/2)), whose error is absolute where it cancels.
Interval activate(const MoeShape& shape, const Semantics* semantics, Interval g, Interval u);
Interval activate(const MoeShape& shape, const Semantics* semantics, Interval g, Interval u, bool any_form);

}  // namespace moe::reference
