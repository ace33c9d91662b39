#include "sim/layer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/errors.hpp"
#include "sim/memory.hpp"

namespace moe::sim {
namespace {

constexpr double kBf16 = 2, kInt = 4, kFloat = 4;

/// Codes of `columns` values and their scales.
double quantised_bytes(const QuantScheme& quant, double columns) {
  return columns + kFloat * (quant.block() ? columns / kScaleBlock : 1);
}

Elementwise topk(const MoeShape& s) {
  return {"topk", double(s.tokens) * s.experts * kFloat, double(s.pairs()) * (kInt + kFloat)};
}

Elementwise count_rows(const MoeShape& s) {
  return {"count_rows", double(s.pairs()) * kInt, s.local_experts() * kInt};
}

/// Up to so many pairs the plan of rows is one kernel, place_rows, without count_rows.
constexpr std::int64_t kRankedPairs = 128;

Elementwise place_rows(const MoeShape& s) {
  return {"place_rows", 2 * double(s.pairs()) * kInt, 2 * double(s.pairs()) * kInt};
}

void add_row_plan(std::vector<Elementwise>& kernels, const MoeShape& s, std::int64_t ids) {
  if (ids > kRankedPairs) kernels.push_back(count_rows(s));
  kernels.push_back(place_rows(s));
}

Elementwise quantize(const Problem& p, double rows) {
  const double hidden = double(p.shape.hidden);
  return {"quantize", double(p.shape.tokens) * hidden * kBf16, rows * quantised_bytes(p.quant, hidden)};
}

Elementwise act_quant(const Problem& p, double rows) {
  return {"act_quant", rows * double(p.shape.up_rows()) * kBf16,
          rows * quantised_bytes(p.quant, double(p.shape.local_intermediate()))};
}

Elementwise combine(const MoeShape& s, double rows) {
  const double hidden = double(s.hidden);
  return {"combine", rows * hidden * kBf16, double(s.tokens) * hidden * kBf16};
}

Elementwise inv_rope_quant(const Problem& p) {
  const double tokens = double(p.shape.tokens),
               values = tokens * double(p.local_heads()) * double(HeadShape::kDim);
  const double scales = double(p.padded_tokens()) * double(p.local_heads()) *
                        double(HeadShape::kDim / kScaleBlock) *
                        (p.quant.scale_format == ScaleFormat::ue8m0 ? 1 : kFloat);
  constexpr double kPosition = 8;  // int64, and the row of the table that it names
  return {"inv_rope_quant", values * kBf16 + tokens * (kPosition + double(HeadShape::kRope) * kFloat),
          values + scales};
}

Elementwise expert_of_rows(double rows) { return {"expert_of_rows", 0, rows * kInt}; }

Elementwise gather_rows(const Problem& p, double rows) {
  const double k = double(p.gemm == 1 ? p.shape.hidden : p.shape.local_intermediate());
  return {"gather_rows", rows * quantised_bytes(p.quant, k), rows * quantised_bytes(p.quant, k)};
}

}  // namespace

double elementwise_seconds(const Hardware& hardware, const Elementwise& kernel) {
  const double bytes = kernel.read + kernel.written;
  const double stream = bytes / hardware.copy_bytes_per_s;
  if (bytes > l2_capacity(hardware)) return hardware.small_kernel_s + stream;
  const double l2 = kernel.read / hardware.l2_bytes_per_s_by_footprint.at(bytes / 1e6) +
                    kernel.written / hardware.l2_write_bytes_per_s;
  return hardware.small_kernel_s + std::min(l2, stream);
}

std::vector<Elementwise> kernels_before(const Problem& problem, std::int64_t rows, std::string_view kernel) {
  const MoeShape& shape = problem.shape;
  std::vector<Elementwise> kernels;
  if (problem.op == Op::grouped_gemm) {
    if (problem.contract != Contract::contiguous) kernels.push_back(expert_of_rows(double(rows)));
    add_row_plan(kernels, shape, rows);
    kernels.push_back(gather_rows(problem, double(rows)));
    return kernels;
  }
  if (!problem.routing.given()) kernels.push_back(topk(shape));
  add_row_plan(kernels, shape, shape.pairs());
  if (problem.quant.kind == QuantKind::tensor_dynamic)
    kernels.push_back({"hidden_amax", quantize(problem, 0).read, 0});
  const double tokens = double(shape.tokens), hidden = double(shape.hidden);
  Elementwise quantized = quantize(problem, kernel == kOwnKernel ? double(rows) : tokens);
  if (kernel == kFusedKernel && problem.quant.block())  // scales go to sorted rows in every path
    quantized.written += double(rows) * (quantised_bytes(problem.quant, hidden) - hidden);
  kernels.push_back(quantized);
  if (kernel == kGroupedKernel)
    kernels.push_back({"gather_rows", tokens * quantised_bytes(problem.quant, hidden),
                       double(rows) * quantised_bytes(problem.quant, hidden)});
  return kernels;
}

std::vector<Elementwise> kernels_between(const Problem& problem, std::int64_t rows) {
  if (problem.op == Op::grouped_gemm) return {};
  std::vector<Elementwise> kernels = {act_quant(problem, double(rows))};
  if (problem.quant.kind == QuantKind::tensor_dynamic)
    kernels.insert(kernels.begin(), {"act_amax", kernels[0].read, 0});
  return kernels;
}

std::vector<Elementwise> kernels_behind(const Problem& problem, std::int64_t rows) {
  if (problem.op == Op::grouped_gemm) return {};
  return {combine(problem.shape, double(rows))};
}

Elementwise kernel_of_op(const Problem& problem, std::int64_t rows) {
  switch (problem.op) {
    case Op::topk:
      return topk(problem.shape);
    case Op::align:
      return place_rows(problem.shape);
    case Op::quantize:
      return quantize(problem, double(problem.shape.tokens));
    case Op::act_quant:
      return act_quant(problem, double(rows));
    case Op::combine:
      return combine(problem.shape, double(rows));
    case Op::inv_rope_quant:
      return inv_rope_quant(problem);
    default:
      break;
  }
  throw BadInput(fmt::format("predict: no model of op {}", name(problem.op)));
}

Part part_of(const Hardware& hardware, const Elementwise& kernel) {
  const double seconds = elementwise_seconds(hardware, kernel);
  const bool floor = seconds < 2 * hardware.small_kernel_s;
  const bool fits = kernel.read + kernel.written <= l2_capacity(hardware);
  return {kernel.name, seconds, floor ? Limit::latency : fits ? Limit::l2 : Limit::hbm};
}

}  // namespace moe::sim
