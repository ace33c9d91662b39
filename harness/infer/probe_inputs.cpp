#include "harness/infer/probe_inputs.hpp"

#include <algorithm>
#include <cstring>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

bool is_weight(const Tensor& t) {
  return t.name() == "w13" || t.name() == "w2" || t.name().ends_with("_bias");
}

}  // namespace

Routing plain_routing(const Problem& p) {
  const MoeShape& s = p.shape;
  Routing r{s.tokens, s.top_k, {}, {}};
  const int local = s.local_experts(), first = p.rank * local;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (int j = 0; j < s.top_k; ++j) {
      const int expert = first + int((t + j) % local);
      r.ids.push_back(j < local ? expert : (first + j) % s.experts);
      r.weights.push_back(j == 0 ? 1.0f : 0.0f);
    }
  }
  return r;
}

std::uint64_t ProbeRandom::next() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

ProbeInputs::ProbeInputs(const Case& c, std::uint64_t seed) : random(seed), c_(c) {
  tensors = make_inputs(c.problem, c.choice, plain_routing(c.problem), 1);
  for (Tensor& t : tensors.all()) {
    t.generated.reset();
    // experts without tokens are address space only
    if (is_weight(t)) std::memset(t.data(), 0, t.bytes() / std::size_t(t.dim(0)) * std::size_t(experts()));
  }
  std::memset(tensors.at("hidden").data(), 0, tensors.at("hidden").bytes());
  set_all_scales("w13_scale", 1);
  set_all_scales("w2_scale", 1);
}

int ProbeInputs::experts() const {
  const MoeShape& s = problem().shape;
  return int(std::min<std::int64_t>(s.local_experts(), s.tokens + s.top_k - 1));
}

void ProbeInputs::set_x(std::int64_t token, std::int64_t k, float value) {
  tensors.at("hidden").as<std::uint16_t>()[std::size_t(token * hidden() + k)] = encode_bf16(value);
}

void ProbeInputs::set_code(const char* tensor, int expert, std::int64_t row, std::int64_t k, float value) {
  Tensor& t = tensors.at(tensor);
  t.as<std::uint8_t>()[std::size_t((expert * t.dim(1) + row) * t.dim(2) + k)] = encode_e4m3(value);
}
void ProbeInputs::set_w13(int expert, std::int64_t row, std::int64_t k, float value) {
  set_code("w13", expert, row, k, value);
}
void ProbeInputs::set_w2(int expert, std::int64_t row, std::int64_t k, float value) {
  set_code("w2", expert, row, k, value);
}

void ProbeInputs::set_w13_scale(int expert, std::int64_t row, std::int64_t k, float scale) {
  Tensor& t = tensors.at("w13_scale");
  std::int64_t at = expert;
  if (problem().quant.block())
    at = (expert * t.dim(1) + row / kScaleBlock) * t.dim(2) + k / kScaleBlock;
  else if (!problem().quant.tensor())
    at = expert * t.dim(1) + row;
  t.as<float>()[std::size_t(at)] = scale;
}

void ProbeInputs::set_all_scales(const char* tensor, float scale) {
  const auto values = tensors.at(tensor).as<float>();
  std::fill(values.begin(), values.end(), scale);
}

void ProbeInputs::set_static_scales(float a1, float a2) {
  if (problem().quant.kind != QuantKind::tensor_static) return;
  tensors.at("a1_scale").as<float>()[0] = a1;
  tensors.at("a2_scale").as<float>()[0] = a2;
}

void ProbeInputs::gates_from(std::int64_t k, float w) {
  if (!problem().shape.gated()) return;
  for (int e = 0; e < experts(); ++e)
    for (std::int64_t j = 0; j < inner(); ++j) set_w13(e, j, k, w);
}

void ProbeInputs::identity_w2() {
  for (int e = 0; e < experts(); ++e)
    for (std::int64_t h = 0; h < hidden(); ++h) set_w2(e, h, h % inner(), 1);
}

std::span<std::int32_t> ProbeInputs::ids() { return tensors.at("topk_ids").as<std::int32_t>(); }
std::span<float> ProbeInputs::weights() { return tensors.at("topk_weights").as<float>(); }

}  // namespace moe::harness
