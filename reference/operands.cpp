#include "reference/operands.hpp"

#include <algorithm>
#include <unordered_set>

#include "fixtures/problem/errors.hpp"

namespace moe::reference {
namespace {

const std::uint8_t* codes_of(const Tensor& tensor) { return tensor.as<std::uint8_t>().data(); }
const float* floats_of(const Tensor& tensor) { return tensor.as<float>().data(); }

WeightView weights(const Problem& problem, const Tensor& codes, const Tensor& scales) {
  return {problem.quant.kind, codes.dim(0), codes.dim(1), codes.dim(2), codes_of(codes), floats_of(scales)};
}

// Row-major scales, as the canonical x_scale and act_scale are.
CodeView canonical_codes(QuantKind kind, const Tensor& codes, const Tensor& scales) {
  CodeView view{codes.shape().back(), codes_of(codes), floats_of(scales)};
  if (kind == QuantKind::token_channel) view.row_stride = 1;
  if (kind == QuantKind::block128)
    view.row_stride = (view.k + kScaleBlock - 1) / kScaleBlock, view.block_stride = 1;
  return view;
}

// grouped_gemm's a_scale, which may be MN-major, and for a masked batch flat or one matrix a group.
CodeView contract_codes(const Problem& problem, const Tensor& codes, const Tensor& scales) {
  CodeView view = canonical_codes(problem.quant.kind, codes, scales);
  if (problem.quant.kind != QuantKind::block128 || problem.quant.scale_layout != ScaleLayout::mn_major)
    return view;
  view.row_stride = 1;
  view.block_stride = scales.shape().back();
  if (scales.shape().size() == 3) {
    view.group_rows = codes.dim(1);
    view.group_stride = scales.dim(1) * scales.dim(2);
  }
  return view;
}

void routed_rows(const Problem& problem, const TensorSet& in, GroupedGemm& gemm) {
  const auto ids = in.at("sorted_token_ids").as<std::int32_t>();
  const auto experts = in.at("expert_ids").as<std::int32_t>();
  const std::int64_t total = in.at("num_tokens_post_padded").as<std::int32_t>()[0],
                     pairs = problem.shape.pairs();
  if (experts.empty() || total <= 0) return;
  const std::int64_t block = std::int64_t(ids.size()) / std::int64_t(experts.size());
  for (std::int64_t i = 0; i < total && i < std::int64_t(ids.size()); ++i) {
    const std::int64_t id = ids[std::size_t(i)];
    if (id < 0 || id >= pairs) continue;
    gemm.rows.push_back(
        {id, problem.gemm == 1 ? id / problem.shape.top_k : id,
         experts[std::size_t(std::min<std::int64_t>(i / block, std::int64_t(experts.size()) - 1))]});
  }
}

void masked_rows(const TensorSet& in, std::int64_t max_m, GroupedGemm& gemm) {
  const auto counts = in.at("counts").as<std::int32_t>();
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] > max_m)
      throw BadInput("counts[" + std::to_string(e) + "] is " + std::to_string(counts[e]) +
                     ": a masked group has at most max_m = " + std::to_string(max_m) + " rows");
    for (std::int64_t r = 0; r < counts[e]; ++r)
      gemm.rows.push_back({std::int64_t(e) * max_m + r, std::int64_t(e) * max_m + r, std::int32_t(e)});
  }
}

void offset_rows(const TensorSet& in, GroupedGemm& gemm) {
  const auto offsets = in.at("offsets").as<std::int32_t>();
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    if (offsets[e + 1] < offsets[e])
      throw BadInput("offsets descend at group " + std::to_string(e) + ": they must ascend");
    for (std::int64_t r = offsets[e]; r < offsets[e + 1]; ++r) gemm.rows.push_back({r, r, std::int32_t(e)});
  }
}

}  // namespace

float WeightView::scale(std::int64_t expert, std::int64_t column, std::int64_t k_index) const {
  if (kind == QuantKind::token_channel) return scales[expert * n + column];
  if (kind != QuantKind::block128) return scales[expert];
  const std::int64_t blocks_n = (n + kScaleBlock - 1) / kScaleBlock,
                     blocks_k = (k + kScaleBlock - 1) / kScaleBlock;
  return scales[(expert * blocks_n + column / kScaleBlock) * blocks_k + k_index / kScaleBlock];
}

float CodeView::scale(std::int64_t row, std::int64_t k_index) const {
  const std::int64_t block = k_index / kScaleBlock;
  if (group_rows == 0) return scales[row * row_stride + block * block_stride];
  return scales[row / group_rows * group_stride + row % group_rows * row_stride + block * block_stride];
}

const Tensor& lookup(const TensorSet& outputs, const TensorSet& inputs, std::string_view name) {
  const Tensor* found = outputs.find(name);
  return found ? *found : inputs.at(name);
}

std::vector<std::int32_t> local_experts(const Problem& problem, const Tensor& topk_ids) {
  const std::int32_t count = problem.shape.local_experts(), first = problem.rank * count;
  std::vector<std::int32_t> experts;
  for (const std::int32_t id : topk_ids.as<std::int32_t>())
    experts.push_back(id >= first && id < first + count ? id - first : -1);
  return experts;
}

GroupedGemm layer_weights(const Problem& problem, int gemm, const TensorSet& inputs) {
  GroupedGemm result;
  result.w = gemm == 1 ? weights(problem, inputs.at("w13"), inputs.at("w13_scale"))
                       : weights(problem, inputs.at("w2"), inputs.at("w2_scale"));
  if (problem.shape.bias) result.bias = floats_of(inputs.at(gemm == 1 ? "w13_bias" : "w2_bias"));
  return result;
}

GroupedGemm layer_gemm(const Problem& problem, int gemm, const TensorSet& inputs, const TensorSet& outputs) {
  const auto get = [&](std::string_view name) -> const Tensor& { return lookup(outputs, inputs, name); };
  GroupedGemm result = layer_weights(problem, gemm, inputs);
  result.a = gemm == 1 ? canonical_codes(problem.quant.kind, get("x_codes"), get("x_scale"))
                       : canonical_codes(problem.quant.kind, get("act_codes"), get("act_scale"));
  const std::vector<std::int32_t> experts = local_experts(problem, get("topk_ids"));
  for (std::size_t p = 0; p < experts.size(); ++p)
    if (experts[p] >= 0)
      result.rows.push_back(
          {std::int64_t(p), gemm == 1 ? std::int64_t(p) / problem.shape.top_k : std::int64_t(p), experts[p]});
  return result;
}

GroupedGemm contract_gemm(const Problem& problem, const TensorSet& in) {
  GroupedGemm result;
  result.w = weights(problem, in.at("w"), in.at("w_scale"));
  result.a = contract_codes(problem, in.at("a_codes"), in.at("a_scale"));
  if (problem.shape.bias && in.has("w_bias")) result.bias = floats_of(in.at("w_bias"));
  switch (problem.contract) {
    case Contract::routed:
      routed_rows(problem, in, result);
      break;
    case Contract::contiguous: {
      const auto groups = in.at("group_of_row").as<std::int32_t>();
      for (std::size_t r = 0; r < groups.size(); ++r)
        if (groups[r] >= 0) result.rows.push_back({std::int64_t(r), std::int64_t(r), groups[r]});
      break;
    }
    case Contract::masked:
      masked_rows(in, in.at("a_codes").dim(1), result);
      break;
    case Contract::offsets:
      offset_rows(in, result);
      break;
  }
  std::sort(result.rows.begin(), result.rows.end(),
            [](const GemmRow& a, const GemmRow& b) { return a.out < b.out; });
  return result;
}

std::vector<GemmRow> select_rows(const GroupedGemm& gemm, std::span<const std::int64_t> wanted) {
  const std::unordered_set<std::int64_t> keep(wanted.begin(), wanted.end());
  std::vector<GemmRow> rows;
  for (const GemmRow& row : gemm.rows)
    if (keep.contains(row.out)) rows.push_back(row);
  return rows;
}

}  // namespace moe::reference
