#include "sim/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fixtures/problem/errors.hpp"
#include "sim/memory.hpp"

namespace moe::sim {
namespace {

constexpr double kBf16 = 2, kInt = 4, kFloat = 4;

/// Codes of `columns` values and their scales.
double quantised_bytes(const QuantScheme& quant, double columns) {
  return columns + kFloat * (quant.block() ? columns / kScaleBlock : 1);
}

double ceil_div(double a, double b) { return std::ceil(a / b); }

/// A warp decides for one token, at most four warps a CTA.
Elementwise topk(const MoeShape& s) {
  return {"topk", double(s.tokens) * s.experts * kFloat, double(s.pairs()) * (kInt + kFloat),
          ceil_div(double(s.tokens), std::min<double>(double(s.tokens), 4))};
}

/// Steps of 128 ids in which a CTA of an expert goes through all ids: one warp up to 2048 of them, else eight
/// warps, each a share.
double scan_steps(double ids) { return ceil_div(ids, 128 * (ids <= 2048 ? 1 : 8)); }

Elementwise count_rows(const MoeShape& s, double ids) {
  return {"count_rows", ids * kInt, s.local_experts() * kInt, double(s.local_experts()), scan_steps(ids)};
}

/// CTAs that share out a row: 1024 columns each, or the whole row where it has one scale.
double chunks_of(const QuantScheme& quant, double columns) {
  return quant.kind == QuantKind::token_channel ? 1 : ceil_div(columns, 1024);
}

/// Up to so many pairs the plan of rows is one kernel, place_rows, without count_rows.
constexpr std::int64_t kRankedPairs = 128;

/// It counts its share of the ids and goes through it again.
Elementwise place_rows(const MoeShape& s, double ids) {
  return {"place_rows", 2 * ids * kInt, 2 * ids * kInt, double(s.local_experts()),
          ids > kRankedPairs ? 2 * scan_steps(ids) : 0};
}

void add_row_plan(std::vector<Elementwise>& kernels, const MoeShape& s, std::int64_t ids) {
  if (ids > kRankedPairs) kernels.push_back(count_rows(s, double(ids)));
  kernels.push_back(place_rows(s, double(ids)));
}

Elementwise quantize(const Problem& p, double rows) {
  const double hidden = double(p.shape.hidden);
  return {"quantize", double(p.shape.tokens) * hidden * kBf16, rows * quantised_bytes(p.quant, hidden),
          double(p.shape.tokens) * chunks_of(p.quant, hidden)};
}

Elementwise act_quant(const Problem& p, double rows) {
  const double columns = double(p.shape.local_intermediate());
  return {"act_quant", rows * double(p.shape.up_rows()) * kBf16, rows * quantised_bytes(p.quant, columns),
          double(p.shape.pairs()) * chunks_of(p.quant, columns)};
}

Elementwise combine(const MoeShape& s, double rows) {
  const double hidden = double(s.hidden);
  return {"combine", rows * hidden * kBf16, double(s.tokens) * hidden * kBf16,
          double(s.tokens) * ceil_div(hidden, 1024)};
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
  const double other =
      std::max(kernel.ctas / hardware.sms * hardware.cta_turnover_s, kernel.steps * hardware.l2_latency_s);
  if (bytes > l2_capacity(hardware)) return hardware.small_kernel_s + std::max(stream, other);
  const double l2 = kernel.read / hardware.l2_bytes_per_s_by_footprint.at(bytes / 1e6) +
                    kernel.written / hardware.l2_write_bytes_per_s;
  return hardware.small_kernel_s + std::max(std::min(l2, stream), other);
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
      return place_rows(problem.shape, double(problem.shape.pairs()));
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
