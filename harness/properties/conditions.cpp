#include "harness/properties/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fixtures/problem/generate.hpp"

namespace moe::harness {

std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return {};
}

std::string only_for(const Subject& s, std::initializer_list<Op> ops) {
  if (std::find(ops.begin(), ops.end(), s.op()) != ops.end()) return {};
  return fmt::format("it says nothing about op {}", moe::name(s.op()));
}

std::string needs_tokens(const Subject& s, std::int64_t least) {
  return s.shape().tokens >= least ? "" : fmt::format("it needs {} tokens", least);
}
std::string needs_slots(const Subject& s, int least) {
  return s.shape().top_k >= least ? "" : fmt::format("it needs top_k {}", least);
}
std::string own_scales(const Subject& s) {
  return s.problem().quant.kind == QuantKind::tensor_dynamic ? "all tokens share one scale" : "";
}
std::string known_order(const Subject& s) {
  return s.plan().known_arithmetic ? "" : "the kernel's order of sums is not known: it may follow the shape";
}
std::string built_in(const Subject& s, const char* why) { return s.plan().foreign ? why : ""; }
std::string no_bias(const Subject& s) { return s.shape().bias ? "the layer has biases" : ""; }
std::string weights_on_output(const Subject& s) {
  return s.shape().weight_on_input ? "routing weights multiply the input" : "";
}
std::string not_nasty(const Subject& s) {
  return s.problem().data == DataMode::nasty ? "nasty data meet the floor of scales" : "";
}
std::string some_local_pair(const Subject& s) {
  const auto ids = ids_of(s.inputs());
  const bool some = std::any_of(ids.begin(), ids.end(), [&](std::int32_t id) { return s.is_local(id); });
  return some ? "" : "no token goes to an expert of this rank";
}

std::span<std::int32_t> ids_of(TensorSet& set) { return set.at("topk_ids").as<std::int32_t>(); }
std::span<float> weights_of(TensorSet& set) { return set.at("topk_weights").as<float>(); }
std::span<const std::int32_t> ids_of(const TensorSet& set) {
  const Tensor* ids = set.find("topk_ids");
  return ids == nullptr ? std::span<const std::int32_t>{} : ids->as<std::int32_t>();
}

int first_used_expert(const Subject& s) {
  for (const std::int32_t id : ids_of(s.inputs()))
    if (s.is_local(id)) return id - s.first_expert();
  throw NotApplicable("no token goes to an expert of this rank");
}

double bf16_half_ulp(double value) {
  return std::ldexp(std::fabs(value), -8) * (1 + 0x1p-8) +
         0x1p-134;  // 8 significant bits, the last of them halved
}

CombineBound::CombineBound(const Subject& s, const TensorSet& inputs, const TensorSet& outputs)
    : gemm2_(s.op() == Op::combine ? inputs.find("gemm2") : outputs.find("gemm2")), top_k_(s.shape().top_k) {
  if (gemm2_ == nullptr) throw NotApplicable("the kernel does not show gemm2");
  const auto ids = ids_of(inputs);
  const auto weights = inputs.at("topk_weights").as<float>();
  for (std::size_t i = 0; i < ids.size(); ++i)
    weights_.push_back(s.is_local(ids[i]) ? (s.shape().weight_on_input ? 1.0 : std::fabs(double(weights[i])))
                                          : 0.0);
}

double CombineBound::magnitude(std::int64_t token, std::int64_t column) const {
  double sum = 0;
  for (std::int64_t pair = token * top_k_; pair < (token + 1) * top_k_; ++pair)
    if (weights_[std::size_t(pair)] != 0)
      sum += weights_[std::size_t(pair)] * std::fabs(value_at(*gemm2_, pair * gemm2_->dim(1) + column));
  return sum;
}

double CombineBound::operator()(std::int64_t token, std::int64_t column, double a, double b) const {
  // fp32: a product and a sum a slot, each within 2^-24 of partial sums below `magnitude`; two such sums
  return magnitude(token, column) * (4.0 * top_k_) * 0x1p-24 + bf16_half_ulp(a) + bf16_half_ulp(b);
}

Resized resized(const Subject& s, const RowMap& tokens) {
  Resized r{s.trial(), s.inputs()};
  Problem& p = r.c.problem;
  p.shape.tokens = std::int64_t(tokens.size());
  if (s.op() != Op::grouped_gemm && s.op() != Op::align) {
    take_tokens(s.problem(), r.inputs, tokens);
    return r;
  }
  if (p.data == DataMode::file) throw NotApplicable("inputs come from files");
  const Routing old = routing_of(s.problem());
  Routing routing{p.shape.tokens, old.top_k, {}, {}};
  for (const std::int64_t pair : pairs_of(tokens, old.top_k)) {
    routing.ids.push_back(old.ids[std::size_t(pair)]);
    routing.weights.push_back(old.weights[std::size_t(pair)]);
  }
  r.inputs = make_inputs(p, r.c.choice, routing, s.plan().threads);
  for (Tensor& t : r.inputs.all()) t.generated.reset();
  return r;
}

}  // namespace moe::harness
