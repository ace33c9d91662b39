#include "reference/activation.hpp"

#include <algorithm>
#include <cmath>

namespace moe::reference {
namespace {

constexpr double kUnit = 0x1p-24;  // relative error of one fp32 rounding
constexpr double kSqrt2OverPi = 0.79788456080286535588;

double gelu_tanh(double g) { return 0.5 * g * (1 + std::tanh(kSqrt2OverPi * (g + 0.044715 * g * g * g))); }
double silu(double g, double alpha) { return g / (1 + std::exp(-alpha * g)); }

double clamp_gate(const MoeShape& shape, double g) {
  return shape.activation == Activation::silu_mul_clamped ? std::fmin(g, shape.limit) : g;
}

// The factor that the gate gives; relu2 has only this one.
double gate_factor(const MoeShape& shape, double g) {
  switch (shape.activation) {
    case Activation::silu_mul:
      return silu(g, 1);
    case Activation::silu_mul_clamped:
      return silu(clamp_gate(shape, g), shape.alpha);
    case Activation::gelu_tanh_mul:
      return gelu_tanh(g);
    case Activation::relu2:
      return g > 0 || std::isnan(g) ? g * g : 0;  // a NaN stays one
  }
  return 0;
}

double up_factor(const MoeShape& shape, double u) {
  if (shape.activation == Activation::relu2) return 1;
  if (shape.activation != Activation::silu_mul_clamped) return u;
  return std::clamp(u, -shape.limit, shape.limit) + shape.beta;
}

// Where g / (1 + exp(-g)) and the gelu have their only minimum.
double lowest_gate(const MoeShape& shape) {
  switch (shape.activation) {
    case Activation::silu_mul:
      return -1.2784645427610738;
    case Activation::silu_mul_clamped:
      return -1.2784645427610738 / shape.alpha;
    case Activation::gelu_tanh_mul:
      return -0.7524614220710162;
    case Activation::relu2:
      break;
  }
  return 0;
}

// exp in fp32: an argument reduced with relative error 2^-24 shifts the result by |x| 2^-23, the recipe and
// CUDA's fast exp add a few units; beyond 80 an implementation may clamp the argument, which leaves |g|
// exp(-80).
// `any_form`: silu may be made as g/2 (1 + tanh(g/2)), too: beside -1 an fp32 tanh is off by 2 ulp of 2^-24
// (CUDA C++ Programming Guide, tanhf), which the exact sum with 1 keeps: |g| 2^-24 of the product, and as
// much for a tanh made of another exp.
Interval evaluation_error(const MoeShape& shape, double g, Interval factor, bool any_form) {
  if (factor.low == 0 && factor.high == 0 && g == 0) return factor;
  const double size = std::fabs(g);
  if (shape.activation == Activation::relu2) return widen(factor, 2 * kUnit, 0x1p-149);
  if (shape.activation == Activation::gelu_tanh_mul)
    return widen(factor, 4 * kUnit, size * 16 * kUnit + 0x1p-149);
  const double argument =
      std::fmin(size * std::fabs(shape.activation == Activation::silu_mul ? 1 : shape.alpha), 90);
  const double by_tanh = any_form && factor.low < 0 ? 2 * size * kUnit : 0;
  return widen(factor, (12 + 3 * argument) * kUnit,
               by_tanh + (argument > 80 ? size * 0x1p-115 : 0) + 0x1p-126);
}

Interval gate_interval(const MoeShape& shape, Interval g, bool any_form) {
  const double a = gate_factor(shape, g.low), b = gate_factor(shape, g.high), bottom = lowest_gate(shape);
  Interval factor{std::fmin(a, b), std::fmax(a, b)};
  if (g.low < bottom && bottom < g.high) factor.low = std::fmin(factor.low, gate_factor(shape, bottom));
  const double far = std::fmax(std::fabs(clamp_gate(shape, g.low)), std::fabs(clamp_gate(shape, g.high)));
  return evaluation_error(shape, far, factor, any_form);
}

template <class Rounding>
Interval maybe_bf16(const Semantics* semantics, Rounding Semantics::*where, Interval x) {
  if (semantics) return semantics->*where == Rounding::bf16 ? round_to(DType::bf16, x) : x;
  return hull(x, round_to(DType::bf16, x));
}

}  // namespace

double activate(const MoeShape& shape, double g, double u) {
  return gate_factor(shape, g) * up_factor(shape, u);
}

double activate(const MoeShape& shape, const Semantics& semantics, double g, double u) {
  double factor = gate_factor(shape, g);
  if (shape.gated() && semantics.gate_rounding == GateRounding::bf16) factor = round_bf16(factor);
  const double product = factor * up_factor(shape, u);
  return semantics.product_rounding == ProductRounding::bf16 ? round_bf16(product) : product;
}

Interval activate(const MoeShape& shape, const Semantics* semantics, Interval g, Interval u) {
  return activate(shape, semantics, g, u, semantics == nullptr);
}

Interval activate(const MoeShape& shape, const Semantics* semantics, Interval g, Interval u, bool any_form) {
  Interval factor = gate_interval(shape, g, any_form);
  if (shape.gated()) {
    factor = maybe_bf16(semantics, &Semantics::gate_rounding, factor);
    const Interval up{up_factor(shape, u.low), up_factor(shape, u.high)};
    factor = multiply(factor, widen(up, kUnit, 0));
    if (factor.low != 0 || factor.high != 0) factor = widen(factor, 2 * kUnit, 0x1p-149);  // 0 * u stays 0
  }
  return maybe_bf16(semantics, &Semantics::product_rounding, factor);
}

}  // namespace moe::reference
