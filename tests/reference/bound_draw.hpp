// Which grouped GEMMs try a bound hard, and which correct kernels compute them? Seeded draws of operands
// (every data mode of the harness, and data made to hurt: sorted along K, of one magnitude, of one sign, of
// few distinct sizes), of Semantics and of the order in which a kernel takes the k's.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "fixtures/problem/generate.hpp"
#include "layer_draw.hpp"
#include "reference/stage_rows.hpp"
#include "reference/truth.hpp"
#include "tests/own_copy.hpp"

namespace moe::reference::draw {

inline constexpr QuantKind kKinds[] = {QuantKind::tensor_static, QuantKind::tensor_dynamic,
                                       QuantKind::token_channel, QuantKind::block128};
inline constexpr const char* kPresets[] = {"moeproof",      "vllm-triton", "vllm-triton-swap",
                                           "sglang-triton", "deepgemm",    "cutlass"};

/// A preset as it is, or every field drawn.
inline Semantics semantics(Random& random, const QuantScheme& quant) {
  Semantics s = semantics_preset(kPresets[random() % 6], quant);
  if (random() % 2) return s;
  s.amax_floor = random() % 2 ? 1e-10 : 1e-4;
  s.scale_formula = ScaleFormula(random() % 2);
  s.quant_formula = QuantFormula(random() % 3);
  s.accumulator = Accumulator(random() % 2);
  s.hmma_order = HmmaOrder(random() % 2);
  constexpr int kPromote[] = {32, 64, 128}, kChain[] = {0, 32, 64, 96, 128, 160, 256};
  s.promote_k = quant.block() ? kPromote[random() % 3] : kChain[random() % 7];
  s.scale_order = ScaleOrder(random() % 5);
  s.gate_rounding = GateRounding(random() % 2);
  s.product_rounding = ProductRounding(random() % 2);
  s.weight_place = random() % 2 ? WeightPlace::combine : WeightPlace::gemm2;
  s.combine_fma = random() % 2;
  return s;
}

/// Beyond layer_draw's flavours. halves: positive codes first, then negative; tilted: more positive than
/// negative; constant: one magnitude; two_sizes: mostly one small code, some large ones; by_size: magnitudes
/// ascend along K.
enum class Hurt { halves, tilted, constant, two_sizes, by_size };
inline constexpr int kHurts = 5;

inline void hurt(Random& random, Hurt how, Tensor& codes) {
  const std::int64_t k = codes.shape().back();
  auto data = codes.as<std::uint8_t>();
  for (std::size_t i = 0; i < data.size(); ++i) {
    const bool negative = data[i] & 0x80u;
    const std::int64_t at = std::int64_t(i) % k;
    switch (how) {
      case Hurt::halves:
        data[i] = std::uint8_t((data[i] & 0x7Fu) | (at >= k / 2 ? 0x80u : 0));
        break;
      case Hurt::tilted:
        if (negative && random() % 3) data[i] &= 0x7Fu;
        break;
      case Hurt::constant:
        data[i] = std::uint8_t((data[i] & 0x80u) | 0x52u);
        break;
      case Hurt::two_sizes:
        data[i] = std::uint8_t((data[i] & 0x80u) | (random() % 8 ? 0x31u : 0x7Cu));
        break;
      case Hurt::by_size:
        data[i] = std::uint8_t((data[i] & 0x80u) | std::uint8_t(126 * at / k));
        break;
    }
  }
}

struct GemmTrial {
  Problem problem;
  TensorSet inputs;
  std::string data;  // what was drawn, in words
};

inline TensorSet generated(const Problem& problem) { return make_inputs(problem, routing_of(problem), 1); }

/// One expert, `rows` x `columns` outputs, K up to most_k.
inline GemmTrial gemm(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t most_k) {
  GemmTrial trial;
  Problem& p = trial.problem;
  p.op = Op::grouped_gemm;
  p.contract = Contract::offsets;
  p.quant.kind = kKinds[random() % 4];
  if (p.quant.block() && random() % 3 == 0) p.quant.scale_format = ScaleFormat::ue8m0;
  const std::int64_t unit = p.quant.block() ? 128 : 32, top = most_k / unit;
  const std::int64_t k = unit * std::max<std::int64_t>(1, top >> (random() % 5));
  p.shape = {.tokens = rows, .hidden = k, .intermediate = columns / 2, .experts = 1, .top_k = 1};
  p.seed = random();
  p.data = DataMode(random() % 5);
  trial.inputs = generated(p);
  trial.data = std::string(name(p.data));
  if (random() % 2 == 0) return trial;
  const Flavour flavour = Flavour(random() % kFlavours);
  trial.data = "flavour " + std::to_string(int(flavour));
  Tensor a = code_tensor(random, flavour, "a_codes", trial.inputs.at("a_codes").shape());
  Tensor w = code_tensor(random, flavour, "w", trial.inputs.at("w").shape());
  if (random() % 2) {
    const Hurt how = Hurt(random() % kHurts);
    trial.data += " hurt " + std::to_string(int(how));
    hurt(random, how, a);
    if (random() % 2) hurt(random, Hurt(random() % kHurts), w);
  }
  std::copy_n(a.data(), a.bytes(), trial.inputs.at("a_codes").data());
  std::copy_n(w.data(), w.bytes(), trial.inputs.at("w").data());
  return trial;
}

/// Rows of `width` bytes in blocks of `block` bytes; block i becomes block from[i].
inline void reorder(Tensor& tensor, std::int64_t width, std::int64_t block,
                    const std::vector<std::int64_t>& from) {
  std::vector<std::byte> row(std::size_t(width), std::byte{0});
  for (std::size_t at = 0; at + std::size_t(width) <= tensor.bytes(); at += std::size_t(width)) {
    for (std::size_t i = 0; i < from.size(); ++i)
      std::copy_n(tensor.data() + at + std::size_t(from[i] * block), block,
                  row.data() + i * std::size_t(block));
    std::copy(row.begin(), row.end(), tensor.data() + at);
  }
}

/// The same sums for a kernel that takes the k's in another order: blocks of 128 (32 without block scales)
/// backwards or shuffled.
inline TensorSet in_another_order(Random& random, const GemmTrial& trial, bool shuffled) {
  TensorSet inputs = own_copy(trial.inputs);
  const bool block = trial.problem.quant.block();
  const std::int64_t k = trial.problem.shape.hidden, width = block ? 128 : 32;
  std::vector<std::int64_t> from(std::size_t(k / width), 0);
  std::iota(from.rbegin(), from.rend(), 0);
  if (shuffled) std::shuffle(from.begin(), from.end(), random);
  for (const char* codes : {"a_codes", "w"}) reorder(inputs.at(codes), k, width, from);
  if (!block) return inputs;
  Tensor& a_scale = inputs.at("a_scale");
  const bool by_block = trial.problem.quant.scale_layout == ScaleLayout::mn_major;
  const std::int64_t one = by_block ? a_scale.dim(1) * 4 : 4;
  reorder(a_scale, k / 128 * one, one, from);
  reorder(inputs.at("w_scale"), k / 128 * 4, 4, from);
  return inputs;
}

/// How far the bits reach into the intervals: at most 1 if they never leave them.
struct Reach {
  double probable = 0, hard = 0;
  std::int64_t outputs = 0, outside = 0;  // outside the probable interval
};

inline double share(double got, double want, double low, double high) {
  if (got == want || (std::isnan(got) && (std::isnan(low) || std::isinf(low)))) return 0;
  if (std::isinf(low) && std::isinf(high)) return 0;
  const double room = got > want ? high - want : want - low;
  return std::isnan(room) || std::isnan(got) ? 1e30 : std::fabs(got - want) / room;
}

inline Reach reach_of(const TensorTruth& truth, std::span<const std::uint16_t> got) {
  Reach reach;
  reach.outputs = std::int64_t(got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double value = decode_bf16(got[i]);
    const double probable = share(value, truth.want[i], truth.probable_low[i], truth.probable_high[i]);
    reach.outside += !(probable <= 1);
    reach.probable = std::fmax(reach.probable, probable);
    reach.hard = std::fmax(reach.hard, share(value, truth.want[i], truth.low[i], truth.high[i]));
  }
  return reach;
}

inline StageTruth gemm_bits_of(const Problem& problem, const TensorSet& inputs, const Semantics& semantics,
                               int threads) {
  return grouped_gemm_truth(problem, inputs, all_rows(problem.shape.tokens),
                            {&semantics, true, false, threads});
}

inline StageTruth undeclared_bounds(const Problem& problem, const TensorSet& inputs, int threads) {
  return grouped_gemm_truth(problem, inputs, all_rows(problem.shape.tokens),
                            {nullptr, false, true, threads, true});
}

}  // namespace moe::reference::draw
