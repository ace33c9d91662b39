#include "sim/limits.hpp"

#include <algorithm>

#include "fixtures/problem/errors.hpp"

namespace moe::sim {
namespace {

constexpr double kBf16 = 2, kScale = 4;

double blocks(double n) { return double((std::int64_t(n) + 127) / 128); }

/// Weights [experts, n, k] and the operand of `rows` rows and their scales.
double operand_bytes(const QuantScheme& quant, double experts, double n, double k, double rows) {
  const double codes = experts * n * k + rows * k;
  if (!quant.block()) return codes;
  return codes + kScale * blocks(k) * (experts * blocks(n) + rows);
}

}  // namespace

std::string_view name(LimitStage stage) {
  switch (stage) {
    case LimitStage::gemm1:
      return "gemm1";
    case LimitStage::gemm2:
      return "gemm2";
    case LimitStage::layer:
      break;
  }
  return "layer";
}

FewestWork fewest_work(const Problem& problem, const ExpertLoad& load, LimitStage stage) {
  if (problem.op != Op::moe_layer && problem.op != Op::grouped_gemm)
    throw BadInput("limits are known of whole layers and of their GEMMs");
  const MoeShape& s = problem.shape;
  const double hidden = double(s.hidden), inner = double(s.local_intermediate()), up = double(s.up_rows());
  const double rows = double(load.total()), active = load.active();
  const double flop1 = 2 * rows * up * hidden, flop2 = 2 * rows * hidden * inner;
  double bytes = 0;
  switch (stage) {
    case LimitStage::gemm1:
      bytes = operand_bytes(problem.quant, active, up, hidden, std::min(rows, double(s.tokens))) +
              rows * up * kBf16;
      return {bytes, flop1, bytes};
    case LimitStage::gemm2:
      bytes = operand_bytes(problem.quant, active, hidden, inner, rows) + rows * hidden * kBf16;
      return {bytes, flop2, bytes};
    case LimitStage::layer:
      break;
  }
  bytes = active * (up + inner) * hidden + 2 * double(s.tokens) * hidden * kBf16;
  return {bytes, flop1 + flop2, bytes + 2 * rows * hidden * kBf16};
}

Ceilings h200_ceilings(const QuantScheme& quant) { return {4.57e12, quant.block() ? 1.34e15 : 1.49e15}; }

double limit_seconds(double bytes, double flop, const Ceilings& ceilings) {
  return std::max(bytes / ceilings.bytes_per_s, flop / ceilings.flop_per_s);
}

}  // namespace moe::sim
