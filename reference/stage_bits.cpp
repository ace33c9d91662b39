#include "reference/stage_bits.hpp"

#include <algorithm>
#include <map>

#include "reference/exact/exact_gemm.hpp"
#include "reference/exact/exact_stages.hpp"
#include "reference/parallel.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

// Rows of one expert, at most this many at a time, so that the gathered output stays small.
constexpr std::size_t kChunk = 1024;

// Activation rows of a masked batch are counted inside their group, whose scales are a matrix of their own.
std::int64_t group_base(const CodeView& a, std::int64_t act) { return a.group_rows ? act / a.group_rows : 0; }

GemmOperands expert_operands(const QuantScheme& scheme, const GroupedGemm& gemm, std::int32_t expert) {
  const std::int64_t blocks_n = (gemm.w.n + 127) / 128, blocks_k = (gemm.w.k + 127) / 128;
  const std::int64_t scales = scheme.kind == QuantKind::token_channel ? gemm.w.n
                              : scheme.kind == QuantKind::block128    ? blocks_n * blocks_k
                                                                      : 1;
  GemmOperands operands;
  operands.lda = operands.ldw = operands.k = gemm.w.k;
  operands.n = gemm.w.n;
  operands.scheme = scheme;
  operands.w = gemm.w.row(expert, 0);
  operands.w_scale = weight_scales(scheme, gemm.w.scales + expert * scales, gemm.w.k);
  operands.bias = gemm.bias ? gemm.bias + expert * gemm.w.n : nullptr;
  return operands;
}

void expert_bits(const Semantics& semantics, const QuantScheme& scheme, const GroupedGemm& gemm,
                 std::span<const GemmRow> rows, std::span<const std::size_t> positions, int threads,
                 std::span<std::uint16_t> bits) {
  GemmOperands operands = expert_operands(scheme, gemm, rows[positions[0]].expert);
  const std::int64_t group = group_base(gemm.a, rows[positions[0]].act);
  operands.a = gemm.a.codes + group * gemm.a.group_rows * gemm.a.k;
  operands.a_scale = {gemm.a.scales + group * gemm.a.group_stride, gemm.a.row_stride, gemm.a.block_stride, 1};
  std::vector<std::int32_t> acts;
  std::vector<float> weights;
  for (const std::size_t i : positions) {
    acts.push_back(std::int32_t(rows[i].act - group * gemm.a.group_rows));
    if (gemm.row_weight) weights.push_back(gemm.row_weight[rows[i].out]);
  }
  operands.a_rows = acts.data();
  operands.rows = std::int64_t(acts.size());
  operands.row_weight = gemm.row_weight ? weights.data() : nullptr;
  const std::size_t n = std::size_t(gemm.w.n);
  std::vector<std::uint16_t> out(positions.size() * n);
  exact_gemm_bf16(semantics, operands, out.data(), threads);
  for (std::size_t i = 0; i < positions.size(); ++i)
    std::copy_n(out.begin() + std::ptrdiff_t(i * n), n, bits.begin() + std::ptrdiff_t(positions[i] * n));
}

}  // namespace

std::span<const std::uint16_t> bf16_codes(const Tensor& tensor, std::int64_t row) {
  const std::size_t columns = std::size_t(tensor.shape().back());
  return tensor.as<std::uint16_t>().subspan(std::size_t(row) * columns, columns);
}

Tensor gemm_bits(std::string name, const Semantics& semantics, const QuantScheme& scheme,
                 const GroupedGemm& gemm, std::span<const GemmRow> rows, int threads) {
  Tensor bits(std::move(name), DType::bf16, {std::int64_t(rows.size()), gemm.w.n});
  std::map<std::int32_t, std::vector<std::size_t>> by_expert;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].expert >= 0) by_expert[rows[i].expert].push_back(i);
  for (const auto& [expert, positions] : by_expert)
    for (std::size_t first = 0; first < positions.size(); first += kChunk)
      expert_bits(semantics, scheme, gemm, rows,
                  std::span(positions).subspan(first, std::min(kChunk, positions.size() - first)), threads,
                  bits.as<std::uint16_t>());
  return bits;
}

QuantisedBits quantised_bits(const QuantScheme& scheme, std::int64_t columns,
                             std::span<const std::int64_t> rows, const TensorScale& whole, int threads,
                             const std::function<void(std::int64_t, std::uint8_t*, float*)>& quantise) {
  const std::int64_t groups = scale_groups(scheme.kind, columns), count = std::int64_t(rows.size());
  QuantisedBits bits{
      Tensor("codes", DType::e4m3, {count, columns}),
      scheme.tensor() ? Tensor("scales", DType::f32, {1, 1}) : Tensor("scales", DType::f32, {count, groups})};
  if (scheme.tensor()) bits.scales.as<float>()[0] = whole.scale;
  const auto codes = bits.codes.as<std::uint8_t>();
  const auto scales = bits.scales.as<float>();
  parallel_for(count, threads, [&](std::int64_t i) {
    quantise(rows[std::size_t(i)], codes.data() + i * columns,
             scheme.tensor() ? nullptr : scales.data() + i * groups);
  });
  return bits;
}

Tensor combine_bits(const Problem& problem, const Semantics& semantics, StageTensors tensors,
                    std::span<const std::int64_t> tokens, int threads) {
  const Tensor& gemm2 = lookup(tensors.outputs, tensors.inputs, "gemm2");
  const auto weights = lookup(tensors.outputs, tensors.inputs, "topk_weights").as<float>();
  const auto experts = local_experts(problem, lookup(tensors.outputs, tensors.inputs, "topk_ids"));
  const bool weighted = weight_place(problem, &semantics) == WeightPlace::combine;
  const std::size_t k = std::size_t(problem.shape.top_k), hidden = std::size_t(problem.shape.hidden);
  Tensor bits("out", DType::bf16, {std::int64_t(tokens.size()), problem.shape.hidden});
  const auto out = bits.as<std::uint16_t>();
  parallel_for(std::int64_t(tokens.size()), threads, [&](std::int64_t i) {
    const std::size_t first = std::size_t(tokens[std::size_t(i)]) * k;
    std::vector<const std::uint16_t*> rows(k, nullptr);
    for (std::size_t j = 0; j < k; ++j)
      if (experts[first + j] >= 0) rows[j] = bf16_codes(gemm2, std::int64_t(first + j)).data();
    exact_combine_row(semantics, rows, weighted ? weights.subspan(first, k) : std::span<const float>(),
                      out.subspan(std::size_t(i) * hidden, hidden));
  });
  return bits;
}

}  // namespace moe::reference
