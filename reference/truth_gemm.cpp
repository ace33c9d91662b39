// Truth of the stages that sum: the grouped GEMMs and combine.
#include <algorithm>
#include <cmath>

#include "fixtures/problem/number_formats.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/interval.hpp"
#include "reference/parallel.hpp"
#include "reference/sparse_sum.hpp"
#include "reference/stage_bits.hpp"
#include "reference/stage_rows.hpp"
#include "reference/truth.hpp"

namespace moe::reference {
namespace {

TensorTruth sized(std::string tensor, std::int64_t columns, std::vector<std::int64_t> rows, bool bounds) {
  TensorTruth truth{
      std::move(tensor), DType::bf16, columns, std::move(rows), {}, {}, {}, {}, {}, {}, {}, {}, {}};
  if (bounds)
    for (auto* v : {&truth.want, &truth.low, &truth.high})
      v->resize(truth.rows.size() * std::size_t(columns));
  return truth;
}

WeightPlace place_of(const Problem& problem, const TruthOptions& options) {
  const WeightPlace place = weight_place(problem, options.semantics);
  const bool known = !options.semantics && options.weight_in_gemm2 && place == WeightPlace::combine;
  return known ? WeightPlace::gemm2 : place;
}

void set(TensorTruth& truth, std::size_t i, double value, double bound) {
  const Interval allowed = round_to(DType::bf16, around(value, bound));
  truth.want[i] = float(round_bf16(value));
  truth.low[i] = float(allowed.low);
  truth.high[i] = float(allowed.high);
}

TensorTruth sum_truth(const Problem& problem, std::string tensor, const GroupedGemm& gemm,
                      std::span<const std::int64_t> wanted, const TruthOptions& options) {
  const std::vector<GemmRow> rows = select_rows(gemm, wanted);
  std::vector<std::int64_t> numbers;
  for (const GemmRow& row : rows) numbers.push_back(row.out);
  TensorTruth truth = sized(std::move(tensor), gemm.w.n, std::move(numbers), options.bounds);
  if (options.bits && options.semantics)
    truth.bits = gemm_bits(truth.tensor, *options.semantics, problem.quant, gemm, rows, options.threads);
  if (!options.bounds) return truth;
  const SumOptions sum_options{
      accumulation_bound(options.semantics, problem.quant, gemm.w.k, options.probable ? 1 : 0),
      options.threads};
  const GroupedSum sum = options.sparse_weights ? sparse_sum(gemm, rows, nullptr, options.threads)
                                                 : grouped_sum(gemm, rows, nullptr, sum_options);
  for (std::size_t i = 0; i < sum.value.size(); ++i) set(truth, i, sum.value[i], sum.bound[i]);
  for (std::size_t i = 0; i < sum.below.size(); ++i) {
    const Interval probable =
        round_to(DType::bf16, {sum.value[i] - sum.below[i], sum.value[i] + sum.above[i]});
    truth.probable_low.push_back(float(probable.low));
    truth.probable_high.push_back(float(probable.high));
    truth.weak.push_back(is_weak(half_width(truth, i), sum.value[i], sum.typical[i]));
  }
  return truth;
}

}  // namespace

StageTruth gemm_truth(const Problem& problem, int gemm, StageTensors tensors,
                      std::span<const std::int64_t> pairs, const TruthOptions& options) {
  GroupedGemm operands = layer_gemm(problem, gemm, tensors.inputs, tensors.outputs);
  if (gemm == 2 && place_of(problem, options) == WeightPlace::gemm2)
    operands.row_weight = lookup(tensors.outputs, tensors.inputs, "topk_weights").as<float>().data();
  const std::string name = gemm == 1 ? "gemm1" : "gemm2";
  return {name, {sum_truth(problem, name, operands, pairs, options)}};
}

StageTruth grouped_gemm_truth(const Problem& problem, const TensorSet& inputs,
                              std::span<const std::int64_t> rows, const TruthOptions& options) {
  return {"c", {sum_truth(problem, "c", contract_gemm(problem, inputs), rows, options)}};
}

StageTruth combine_truth(const Problem& problem, StageTensors tensors, std::span<const std::int64_t> tokens,
                         const TruthOptions& options) {
  const Tensor& gemm2 = lookup(tensors.outputs, tensors.inputs, "gemm2");
  const auto weights = lookup(tensors.outputs, tensors.inputs, "topk_weights").as<float>();
  const auto experts = local_experts(problem, lookup(tensors.outputs, tensors.inputs, "topk_ids"));
  const WeightPlace place = place_of(problem, options);
  const std::int64_t hidden = problem.shape.hidden, k = problem.shape.top_k;
  StageTruth stage{"combine", {sized("out", hidden, {tokens.begin(), tokens.end()}, options.bounds)}};
  TensorTruth& truth = stage.tensors[0];
  if (options.bits && options.semantics)
    truth.bits = combine_bits(problem, *options.semantics, tensors, tokens, options.threads);
  if (!options.bounds) return stage;
  parallel_for(std::int64_t(tokens.size()), options.threads, [&](std::int64_t i) {
    std::vector<double> sum(std::size_t(hidden), 0.0), size(std::size_t(hidden), 0.0);
    for (std::int64_t pair = tokens[std::size_t(i)] * k, end = pair + k; pair < end; ++pair) {
      if (experts[std::size_t(pair)] < 0) continue;
      const double weight = combine_weight(place, weights[std::size_t(pair)]);
      const std::vector<float> row = bf16_row(gemm2, pair);
      for (std::size_t h = 0; h < row.size(); ++h)
        sum[h] += weight * row[h], size[h] += std::fabs(weight * row[h]);
    }
    // Any order of k products and k sums in fp32.
    const double relative = double(2 * k) * 0x1p-24 * (1 + 0x1p-10);
    for (std::size_t h = 0; h < sum.size(); ++h)
      set(truth, std::size_t(i * hidden) + h, sum[h], relative * size[h] + double(k) * 0x1p-126);
  });
  return stage;
}

}  // namespace moe::reference
