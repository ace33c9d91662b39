// What does a layer mean, written as plainly as possible? Triple loops over the canonical tensors in double,
// sharing no code with reference/ but the number formats: the independent side of the convention tests.
#pragma once
#include <cmath>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::reference::plain {

using Row = std::vector<double>;

inline double weight(const Problem& problem, const TensorSet& in, const char* codes, const char* scales,
                     std::int64_t e, std::int64_t n, std::int64_t k) {
  const Tensor& w = in.at(codes);
  const std::int64_t columns = w.dim(1), depth = w.dim(2);
  const auto s = in.at(scales).as<float>();
  double scale = 0;
  switch (problem.quant.kind) {
    case QuantKind::tensor_static:
    case QuantKind::tensor_dynamic:
      scale = s[e];
      break;
    case QuantKind::token_channel:
      scale = s[e * columns + n];
      break;
    case QuantKind::block128:
      scale = s[(e * ((columns + 127) / 128) + n / 128) * ((depth + 127) / 128) + k / 128];
      break;
  }
  return decode_e4m3(w.as<std::uint8_t>()[(e * columns + n) * depth + k]) * scale;
}

/// y[n] = sum_k x[k] w[e, n, k] + bias; gemm 1 or 2.
inline Row multiply(const Problem& problem, const TensorSet& in, int gemm, std::int64_t e, const Row& x) {
  const char* codes = gemm == 1 ? "w13" : "w2";
  const char* scales = gemm == 1 ? "w13_scale" : "w2_scale";
  const std::int64_t n = in.at(codes).dim(1);
  Row y(n, 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < x.size(); ++k)
      y[j] += x[k] * weight(problem, in, codes, scales, e, j, std::int64_t(k));
    if (problem.shape.bias) y[j] += in.at(gemm == 1 ? "w13_bias" : "w2_bias").as<float>()[e * n + j];
  }
  return y;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

inline Row activate(const MoeShape& shape, const Row& y) {
  if (shape.activation == Activation::relu2) {
    Row out;
    for (const double x : y) out.push_back(x > 0 ? x * x : 0);
    return out;
  }
  Row out;
  const std::size_t half = y.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    double g = y[i], u = y[half + i];
    if (shape.activation == Activation::silu_mul) out.push_back(silu(g) * u);
    if (shape.activation == Activation::gelu_tanh_mul)
      out.push_back(0.5 * g *
                    (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g))) * u);
    if (shape.activation == Activation::silu_mul_clamped) {
      if (g > shape.limit) g = shape.limit;
      if (u > shape.limit) u = shape.limit;
      if (u < -shape.limit) u = -shape.limit;
      out.push_back(g / (1 + std::exp(-shape.alpha * g)) * (u + shape.beta));
    }
  }
  return out;
}

/// Local expert of a pair, or -1.
inline std::int64_t expert_of(const Problem& problem, const TensorSet& in, std::int64_t pair) {
  const std::int64_t local = problem.shape.experts / problem.shape.ep, first = problem.rank * local;
  const std::int64_t id = in.at("topk_ids").as<std::int32_t>()[pair];
  return id >= first && id < first + local ? id - first : -1;
}

/// The layer in real arithmetic, no quantisation of activations.
inline Row layer(const Problem& problem, const TensorSet& in, std::int64_t token) {
  const MoeShape& shape = problem.shape;
  Row out(shape.hidden, 0.0);
  for (int j = 0; j < shape.top_k; ++j) {
    const std::int64_t pair = token * shape.top_k + j, e = expert_of(problem, in, pair);
    if (e < 0) continue;
    const double w = in.at("topk_weights").as<float>()[pair];
    Row x;
    for (std::int64_t h = 0; h < shape.hidden; ++h)
      x.push_back(decode_bf16(in.at("hidden").as<std::uint16_t>()[token * shape.hidden + h]) *
                  (shape.weight_on_input ? w : 1));
    const Row y = multiply(problem, in, 2, e, activate(shape, multiply(problem, in, 1, e, x)));
    for (std::int64_t h = 0; h < shape.hidden; ++h) out[h] += (shape.weight_on_input ? 1 : w) * y[h];
  }
  return out;
}

/// A row of codes times its scales, both canonical.
inline Row dequantised(const Problem& problem, const Tensor& codes, const Tensor& scales, std::int64_t row) {
  const std::int64_t columns = codes.dim(1);
  Row out;
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto s = scales.as<float>();
    double scale = s[0];
    if (problem.quant.kind == QuantKind::token_channel) scale = s[row];
    if (problem.quant.kind == QuantKind::block128) scale = s[row * ((columns + 127) / 128) + i / 128];
    out.push_back(decode_e4m3(codes.as<std::uint8_t>()[row * columns + i]) * scale);
  }
  return out;
}

}  // namespace moe::reference::plain
