#include "harness/exact_twin.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/exact_layer.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

/// Bytes of weights that are drawn once more for a twin.
constexpr double kMostWeights = 1e9;

bool sums_products(Op op) { return op == Op::moe_layer || op == Op::grouped_gemm; }

double weight_bytes(const Problem& p) {
  const MoeShape& s = p.shape;
  const double first = double(s.up_rows()) * double(s.hidden), experts = double(s.local_experts());
  const double second = double(s.local_intermediate()) * double(s.hidden);
  if (p.op == Op::grouped_gemm) return experts * (p.gemm == 1 ? first : second);
  return experts * (first + second);
}

bool is_legal(const Problem& p) {
  try {
    validate(p);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

/// Where hidden and a_codes get, or have, their peak.
constexpr std::int64_t kPeakColumn = 127;

/// Whether row `row` of w13 of a local expert is a sum over K whose value no later stage sees.
bool is_free_sum(const Problem& p, std::int64_t expert, std::int64_t row) {
  if (!exact_layer_data(p)) return true;
  const std::int64_t columns = p.shape.local_intermediate();
  const bool gate = row < columns;
  const std::int64_t first = p.rank * std::int64_t(p.shape.local_experts());
  const ExactColumn kind = exact_column(p, first + expert, gate ? row : row - columns);
  return kind == (gate ? ExactColumn::gate_sum : ExactColumn::up_sum);
}

/// +1 or -1 at the peak's column of every free row of the weights that hold anything.
void raise_sums(const Problem& p, Tensor& w) {
  const std::int64_t rows = w.dim(1), k = w.dim(2);
  const auto codes = w.as<std::uint8_t>();
  for (std::int64_t e = 0; e < w.dim(0); ++e) {
    if (!w.filled_groups.empty() && !w.filled_groups[std::size_t(e)]) continue;
    for (std::int64_t row = 0; row < rows; ++row)
      if (p.op == Op::grouped_gemm || is_free_sum(p, e, row))
        codes[std::size_t((e * rows + row) * k + kPeakColumn)] = encode_e4m3(row % 2 == 0 ? 1.0f : -1.0f);
  }
  w.generated.reset();
}

}  // namespace

TensorSet twin_inputs(const Case& twin, const Routing& routing, int threads) {
  const Problem& p = twin.problem;
  TensorSet inputs = make_inputs(p, twin.choice, routing, threads);
  Tensor& w = inputs.at(p.op == Op::grouped_gemm ? "w" : "w13");
  if (w.dim(2) <= kPeakColumn) return inputs;
  raise_sums(p, w);
  if (Tensor* a = inputs.find("a_codes")) {
    const auto codes = a->as<std::uint8_t>();
    for (std::size_t at = kPeakColumn; at < codes.size(); at += std::size_t(w.dim(2)))
      codes[at] = encode_e4m3(448.0f);
    a->generated.reset();
  }
  return inputs;
}

std::optional<Case> exact_twin(const Case& c, const Verdict& v) {
  const bool by_bounds = v.correctness == Correctness::passed && v.judged_by.ends_with("probable bound");
  const bool designed = c.problem.data == DataMode::exact || c.problem.data == DataMode::coded;
  if (!by_bounds || designed || !sums_products(c.problem.op)) return std::nullopt;
  Case twin = c;
  twin.problem.data = DataMode::exact;
  twin.problem.files = {};
  if (weight_bytes(twin.problem) > kMostWeights || !is_legal(twin.problem)) return std::nullopt;
  return twin;
}

Verdict with_twin(Verdict v, const Verdict& twin) {
  const bool right = twin.correctness == Correctness::passed || twin.correctness == Correctness::mistrusted;
  if (!right) {
    Verdict wrong = twin;
    wrong.reason = fmt::format(
        "within bounds on its own data, wrong in the same case with exact data, which leave one answer: {}",
        twin.reason);
    return wrong;
  }
  if (twin.judged_by == "bits" || twin.judged_by.starts_with("bits and"))
    v.reason += "; its sums on exact data of this size, whose scales are powers of two: to the bit";
  return v;
}

}  // namespace moe::harness
