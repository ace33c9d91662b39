#include "harness/due_outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fixtures/problem/group_rows.hpp"

namespace moe::harness {
namespace {

using Shape = std::vector<std::int64_t>;

/// Scales of `rows` rows of `columns` elements.
Shape scale_shape(const QuantScheme& quant, std::int64_t rows, std::int64_t columns) {
  if (quant.tensor()) return {1};
  if (!quant.block()) return {rows};
  return {rows, (columns + kScaleBlock - 1) / kScaleBlock};
}

void append(std::vector<DueTensor>& to, std::vector<DueTensor> more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// The same elements in the same order: sides of 1 do not count, and what stands before the last side may be
/// joined or split ([L max_m, N] for [L, max_m, N]).
bool same_order(Shape got, Shape due) {
  const auto last_of = [](Shape& shape) {
    std::erase(shape, 1);
    return shape.empty() ? 1 : shape.back();
  };
  return last_of(got) == last_of(due);
}

DueTensor due_product(const Problem& p, const TensorSet& inputs) {
  Shape shape = inputs.at("a_codes").shape();
  shape.back() = p.gemm == 1 ? p.shape.up_rows() : p.shape.hidden;
  if (p.contract == Contract::routed) shape.front() = p.shape.pairs();
  return {"c", DType::bf16, shape};
}

}  // namespace

std::int64_t DueTensor::size() const {
  std::int64_t elements = 1;
  for (const std::int64_t side : shape) elements *= side;
  return elements;
}

std::vector<DueTensor> due_outputs(const Problem& p) {
  const MoeShape& s = p.shape;
  const std::int64_t tokens = s.tokens, pairs = s.pairs(), inter = s.local_intermediate();
  const Shape slots{tokens, s.top_k};
  const std::vector<DueTensor> routing{{"topk_ids", DType::i32, slots}, {"topk_weights", DType::f32, slots}};
  const std::vector<DueTensor> x{{"x_codes", DType::e4m3, {tokens, s.hidden}},
                                 {"x_scale", DType::f32, scale_shape(p.quant, tokens, s.hidden)}};
  const std::vector<DueTensor> act{{"act_codes", DType::e4m3, {pairs, inter}},
                                   {"act_scale", DType::f32, scale_shape(p.quant, pairs, inter)}};
  const DueTensor out{"out", DType::bf16, {tokens, s.hidden}};
  std::vector<DueTensor> due;
  switch (p.op) {
    case Op::topk:
      return routing;
    case Op::quantize:
      return x;
    case Op::act_quant:
      return act;
    case Op::combine:
      return {out};
    case Op::inv_rope_quant: {
      const std::int64_t groups = p.local_groups(), per_group = p.local_heads() / groups,
                         quarters = HeadShape::kDim / kScaleBlock, padded = p.padded_tokens();
      const bool packed = p.quant.scale_format == ScaleFormat::ue8m0;
      return {{"o_codes", DType::e4m3, {groups, tokens, per_group * HeadShape::kDim}},
              packed ? DueTensor{"o_scale", DType::ue8m0, {groups, per_group, padded, quarters}}
                     : DueTensor{"o_scale", DType::f32, {groups, per_group * quarters, padded}}};
    }
    case Op::moe_layer:
      if (!p.routing.given()) append(due, routing);
      append(due, x);
      append(due, {{"gemm1", DType::bf16, {pairs, s.up_rows()}}});
      append(due, act);
      append(due, {{"gemm2", DType::bf16, {pairs, s.hidden}}, out});
      return due;
    default:
      return {};
  }
}

std::vector<DueTensor> all_due_outputs(const Case& c, const TensorSet& inputs) {
  const Problem& p = c.problem;
  if (p.op == Op::grouped_gemm) return {due_product(p, inputs)};
  if (p.op != Op::align) return due_outputs(p);
  const int block = c.choice.tile.block_m;
  const std::int64_t places = align_capacity(p.shape.pairs(), p.shape.experts, block);
  return {{"sorted_token_ids", DType::i32, {places}},
          {"expert_ids", DType::i32, {places / block}},
          {"num_tokens_post_padded", DType::i32, {1}}};
}

std::vector<std::string_view> output_names(Op op) {
  switch (op) {
    case Op::topk:
      return {"topk_ids", "topk_weights"};
    case Op::align:
      return {"sorted_token_ids", "expert_ids", "num_tokens_post_padded"};
    case Op::quantize:
      return {"x_codes", "x_scale"};
    case Op::grouped_gemm:
      return {"c"};
    case Op::act_quant:
      return {"act_codes", "act_scale"};
    case Op::combine:
      return {"out"};
    case Op::inv_rope_quant:
      return {"o_codes", "o_scale"};
    case Op::moe_layer:
      break;
  }
  return {"topk_ids",  "topk_weights", "x_codes", "x_scale", "gemm1",
          "act_codes", "act_scale",    "gemm2",   "out"};
}

std::string first_misfit(const std::vector<DueTensor>& due, const TensorSet& outputs) {
  for (const DueTensor& d : due) {
    const Tensor* got = outputs.find(d.name);
    if (got == nullptr) return fmt::format("the kernel gave no '{}'", d.name);
    if (got->dtype() != d.type)
      return fmt::format("'{}' is {} where {} is due", d.name, name(got->dtype()), name(d.type));
    if (got->size() != d.size() || (d.size() > 0 && !same_order(got->shape(), d.shape)))
      return fmt::format("'{}' is [{}] where [{}] is due", d.name, fmt::join(got->shape(), ", "),
                         fmt::join(d.shape, ", "));
  }
  return "";
}

}  // namespace moe::harness
