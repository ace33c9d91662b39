#include "device/session/stage_params.hpp"

namespace moe::device {

RouterRule router_rule(RouterKind kind) {
  switch (kind) {
    case RouterKind::softmax:
      return RouterRule::softmax;
    case RouterKind::softmax_grouped:
      return RouterRule::softmax_grouped;
    case RouterKind::sigmoid_bias:
      return RouterRule::sigmoid_bias;
    case RouterKind::sigmoid_grouped:
      return RouterRule::sigmoid_grouped;
    case RouterKind::sqrt_softplus:
      return RouterRule::sqrt_softplus;
    case RouterKind::top1_sigmoid:
      return RouterRule::top1_sigmoid;
    case RouterKind::topk_softmax:
      break;
  }
  return RouterRule::topk_softmax;
}

ActivationRule activation_rule(const MoeShape& shape) {
  ActivationRule rule;
  switch (shape.activation) {
    case Activation::silu_mul:
      rule.kind = ActivationKind::silu_mul;
      break;
    case Activation::silu_mul_clamped:
      rule.kind = ActivationKind::silu_mul_clamped;
      break;
    case Activation::gelu_tanh_mul:
      rule.kind = ActivationKind::gelu_tanh_mul;
      break;
    case Activation::relu2:
      rule.kind = ActivationKind::relu2;
      break;
  }
  rule.limit = static_cast<float>(shape.limit);
  rule.alpha = static_cast<float>(shape.alpha);
  rule.beta = static_cast<float>(shape.beta);
  return rule;
}

ScaleGranule granule_of(const QuantScheme& quant) {
  if (quant.block()) return ScaleGranule::block128;
  return quant.tensor() ? ScaleGranule::tensor : ScaleGranule::row;
}

std::int64_t scale_count(const QuantScheme& quant, std::int64_t rows, std::int64_t columns) {
  if (quant.tensor()) return 1;
  return quant.block() ? rows * blocks_of(columns, kScaleBlock) : rows;
}

std::vector<std::int64_t> canonical_scale_shape(const QuantScheme& quant, std::int64_t rows,
                                                std::int64_t columns) {
  if (quant.tensor()) return {1};
  if (quant.block()) return {rows, blocks_of(columns, kScaleBlock)};
  return {rows};
}

QuantizedOut canonical_out(const QuantScheme& quant, const Rows& codes, Address scales) {
  const std::int64_t row_stride = quant.block() ? blocks_of(codes.columns, kScaleBlock) : 1;
  return {pointer<std::uint8_t>(codes.address), codes.stride, pointer<float>(scales), 1, row_stride};
}

QuantizedOut sorted_out(const QuantScheme& quant, const Rows& codes, Address scales, std::int64_t ld) {
  return {pointer<std::uint8_t>(codes.address), codes.stride, pointer<float>(scales), quant.block() ? ld : 1,
          1};
}

TopkRouteParams topk_params(Machine& machine, const Case& c, const TensorSet& inputs) {
  const MoeShape& shape = c.problem.shape;
  const RouterSpec& router = c.problem.routing.router;
  TopkRouteParams p;
  p.logits = pointer<float>(upload_tensor(machine, inputs.at("router_logits")));
  p.bias =
      inputs.has("router_bias") ? pointer<float>(upload_tensor(machine, inputs.at("router_bias"))) : nullptr;
  p.ids = allocate_integers(machine, shape.pairs(), "topk_ids");
  p.weights = pointer<float>(allocate(machine, 4 * shape.pairs(), BufferUse::output, "topk_weights"));
  p.tokens = shape.tokens;
  p.experts = shape.experts;
  p.top_k = shape.top_k;
  p.rule = router_rule(router.kind);
  p.groups = router.groups;
  p.topk_groups = router.topk_groups;
  p.renormalise = router.renormalise ? 1 : 0;
  p.scale = static_cast<float>(router.scale);
  return p;
}

}  // namespace moe::device
