#include "harness/due_outputs.hpp"

#include <fmt/format.h>

namespace moe::harness {
namespace {

/// Scales of `rows` rows of `columns` elements.
std::int64_t scale_count(const QuantScheme& quant, std::int64_t rows, std::int64_t columns) {
  if (quant.tensor()) return 1;
  return quant.block() ? rows * ((columns + kScaleBlock - 1) / kScaleBlock) : rows;
}

void append(std::vector<DueTensor>& to, std::vector<DueTensor> more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<DueTensor> due_outputs(const Problem& p) {
  const MoeShape& s = p.shape;
  const std::int64_t tokens = s.tokens, pairs = s.pairs(), inter = s.local_intermediate();
  const std::vector<DueTensor> routing{{"topk_ids", DType::i32, pairs}, {"topk_weights", DType::f32, pairs}};
  const std::vector<DueTensor> x{{"x_codes", DType::e4m3, tokens * s.hidden},
                                 {"x_scale", DType::f32, scale_count(p.quant, tokens, s.hidden)}};
  const std::vector<DueTensor> act{{"act_codes", DType::e4m3, pairs * inter},
                                   {"act_scale", DType::f32, scale_count(p.quant, pairs, inter)}};
  const DueTensor out{"out", DType::bf16, tokens * s.hidden};
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
    case Op::moe_layer:
      if (p.routing.load.kind != LoadKind::trace) append(due, routing);
      append(due, x);
      append(due, {{"gemm1", DType::bf16, pairs * s.up_rows()}});
      append(due, act);
      append(due, {{"gemm2", DType::bf16, pairs * s.hidden}, out});
      return due;
    default:
      return {};
  }
}

std::string first_misfit(const std::vector<DueTensor>& due, const TensorSet& outputs) {
  for (const DueTensor& d : due) {
    const Tensor* got = outputs.find(d.name);
    if (got == nullptr) return fmt::format("the kernel gave no '{}'", d.name);
    if (got->dtype() != d.type)
      return fmt::format("'{}' is {} where {} is due", d.name, name(got->dtype()), name(d.type));
    if (got->size() != d.size)
      return fmt::format("'{}' has {} elements where {} are due", d.name, got->size(), d.size);
  }
  return "";
}

}  // namespace moe::harness
