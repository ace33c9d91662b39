#include "harness/exact_twin.hpp"

#include "fixtures/problem/exact_layer.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

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

TensorSet exact_twin_inputs(const Case& twin, const Routing& routing, int threads) {
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

Case exact_twin(const Case& c) {
  Case twin = c;
  twin.problem.data = DataMode::exact;
  twin.problem.files = {};
  return twin;
}

}  // namespace moe::harness
