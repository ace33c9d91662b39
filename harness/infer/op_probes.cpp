#include "harness/infer/op_probes.hpp"

#include <cstring>
#include <functional>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/candidates.hpp"
#include "harness/infer/probe_fill.hpp"
#include "reference/layer.hpp"

namespace moe::harness {
namespace {

/// A gate that silu and gelu leave as it is in fp32, whatever exp.
constexpr float kPassingGate = 64;
constexpr std::int64_t kLayerHidden = 640, kLayerInner = 256;

Case as_layer(Case c) {
  c.problem.op = Op::moe_layer;
  return c;
}

Tensor copy_of(const Tensor& t, std::string name, std::vector<std::int64_t> shape) {
  Tensor copy(std::move(name), t.dtype(), std::move(shape));
  std::memcpy(copy.data(), t.data(), copy.bytes());
  return copy;
}
Tensor copy_of(const Tensor& t) { return copy_of(t, t.name(), t.shape()); }

/// A filled layer with the sizes of `c`.
ProbeInputs layer_with(const Case& c, std::uint64_t seed, const std::function<void(ProbeInputs&)>& fill) {
  ProbeInputs in(c, seed);
  fill(in);
  return in;
}

/// Rows for a quantiser: `hidden` of a layer that has no other purpose.
TensorSet quantiser_rows(const Case& c, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                         const std::function<void(ProbeInputs&)>& fill) {
  Case layer = as_layer(c);
  layer.problem.shape.tokens = rows;
  layer.problem.shape.hidden = columns;
  layer.problem.shape.intermediate = kLayerInner * layer.problem.shape.tp;
  return layer_with(layer, seed, fill).tensors;
}

TensorSet quantize_inputs(const Case& c, std::uint64_t seed, const std::function<void(ProbeInputs&)>& fill) {
  const TensorSet rows = quantiser_rows(c, c.problem.shape.tokens, c.problem.shape.hidden, seed, fill);
  TensorSet inputs;
  inputs.add(copy_of(rows.at("hidden")));
  if (rows.has("a1_scale")) inputs.add(copy_of(rows.at("a1_scale")));
  return inputs;
}

/// gemm1 whose activation is the rows that `fill` gives `hidden`: gates that pass, ups a 64th of each value.
TensorSet passing_inputs(const Case& c, std::uint64_t seed, const std::function<void(ProbeInputs&)>& fill) {
  const MoeShape& s = c.problem.shape;
  const std::int64_t inner = s.local_intermediate();
  const TensorSet rows = quantiser_rows(c, s.pairs(), inner, seed, fill);
  Tensor gemm1("gemm1", DType::bf16, {s.pairs(), s.up_rows()});
  const auto values = gemm1.as<std::uint16_t>();
  const auto hidden = rows.at("hidden").as<std::uint16_t>();
  for (std::int64_t p = 0; p < s.pairs(); ++p)
    for (std::int64_t i = 0; i < inner; ++i) {
      values[std::size_t(p * s.up_rows() + i)] = encode_bf16(kPassingGate);
      values[std::size_t(p * s.up_rows() + inner + i)] =
          encode_bf16(decode_bf16(hidden[std::size_t(p * inner + i)]) / kPassingGate);
    }
  TensorSet inputs;
  inputs.add(std::move(gemm1));
  if (rows.has("a1_scale")) inputs.add(copy_of(rows.at("a1_scale"), "a2_scale", {1}));
  return inputs;
}

/// What a stage of a layer's one-hot probe reads: no Semantics changes a byte of it.
TensorSet stage_inputs(const Case& layer, std::uint64_t seed, void (*fill)(ProbeInputs&),
                       std::initializer_list<const char*> names) {
  const ProbeInputs in = layer_with(layer, seed, fill);
  const TensorSet stages = reference::exact_layer(layer.problem, Semantics{}, in.tensors, 1);
  TensorSet inputs;
  for (const char* name : names) {
    const Tensor* t = stages.has(name) ? stages.find(name) : in.tensors.find(name);
    if (t != nullptr) inputs.add(copy_of(*t));
  }
  return inputs;
}

TensorSet gate_inputs(const Case& c, std::uint64_t seed) {
  Case layer = as_layer(c);
  layer.problem.shape.hidden = kLayerHidden;
  return stage_inputs(layer, seed, fill_gates, {"gemm1", "a2_scale"});
}

TensorSet combine_inputs(const Case& c, std::uint64_t seed) {
  Case layer = as_layer(c);
  layer.problem.shape.intermediate = kLayerInner * layer.problem.shape.tp;
  return stage_inputs(layer, seed, fill_combine, {"gemm2", "topk_ids", "topk_weights"});
}

/// Normal data, with routing weights of 24 bits.
TensorSet ordinary_inputs(const Case& c, std::uint64_t seed) {
  Routing routing = plain_routing(c.problem);
  ProbeRandom random(seed);
  for (float& w : routing.weights) w = 0.125f + float(random.below(1 << 21)) * 0x1p-23f;
  TensorSet inputs = make_inputs(c.problem, c.choice, routing, 1);
  for (Tensor& t : inputs.all()) t.generated.reset();
  return inputs;
}

/// Whether a large gate leaves the activation equal to its other operand.
bool gates_pass(const MoeShape& s) {
  return s.activation == Activation::silu_mul || s.activation == Activation::gelu_tanh_mul;
}

}  // namespace

std::vector<Probe> make_op_probes(const Case& c) {
  const Problem& p = c.problem;
  std::vector<Probe> probes;
  const auto add = [&](const std::string& name, TensorSet inputs) {
    probes.push_back({name, c, std::move(inputs), false});
  };
  const auto seed = [&] { return 0x51EDu + probes.size(); };
  const auto add_rows = [&](const std::string& name, int count, void (*fill)(ProbeInputs&, int)) {
    for (int i = 0; i < count; ++i) {
      const auto fill_one = [&](ProbeInputs& in) { fill(in, i); };
      add(count == 1 ? name : name + " " + std::to_string(i + 1),
          p.op == Op::quantize ? quantize_inputs(c, seed(), fill_one) : passing_inputs(c, seed(), fill_one));
    }
  };
  if (p.op == Op::act_quant) add("gates", gate_inputs(c, seed()));
  const bool dynamic = p.quant.kind == QuantKind::tensor_dynamic;
  if (p.op == Op::quantize || (p.op == Op::act_quant && gates_pass(p.shape))) {
    if (!exact_scales(p)) add_rows("ties", dynamic ? 4 : 1, fill_ties);
    if (p.quant.kind != QuantKind::tensor_static) add_rows("tiny", dynamic ? 2 : 1, fill_tiny);
  }
  if (p.op == Op::combine && p.shape.top_k > 1) add("combine", combine_inputs(c, seed()));
  add("ordinary", ordinary_inputs(c, seed()));
  return probes;
}

}  // namespace moe::harness
