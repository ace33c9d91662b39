// Does data=exact keep its promise (fixtures/README.md, "Data modes")? One answer, to the bit, for every
// accumulator, order of k, promotion interval, order of scales and preset, in a grouped GEMM and in every
// stage of a layer.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/exact_layer.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/layer.hpp"
#include "reference/stage_rows.hpp"
#include "tests/own_copy.hpp"

namespace moe::reference {
namespace {

constexpr const char* kSchemes[] = {"block128", "token_channel", "tensor_dynamic", "tensor_static"};
constexpr const char* kPresets[] = {"moeproof",      "vllm-triton", "vllm-triton-swap",
                                    "sglang-triton", "deepgemm",    "cutlass"};

/// Every accumulator, promotion and order of scales that the scheme permits.
std::vector<Semantics> every_order(const QuantScheme& quant) {
  const bool block = quant.block();
  std::vector<Semantics> all;
  for (const char* preset : kPresets) all.push_back(semantics_preset(preset, quant));
  const std::vector<int> promotions =
      block ? std::vector<int>{32, 64, 128} : std::vector<int>{0, 32, 128, 1024};
  for (const auto& [accumulator, order] : {std::pair{Accumulator::wgmma, HmmaOrder::contiguous},
                                           {Accumulator::hmma, HmmaOrder::contiguous},
                                           {Accumulator::hmma, HmmaOrder::interleaved4}}) {
    for (const int promote : promotions) {
      for (int scales = 0; scales < 5; ++scales) {
        Semantics s = semantics_preset("moeproof", quant);
        s.preset = "drawn";
        s.accumulator = accumulator, s.hmma_order = order, s.promote_k = promote;
        s.scale_order = static_cast<ScaleOrder>(scales);
        all.push_back(s);
      }
    }
  }
  return all;
}

std::vector<std::uint16_t> gemm_bits_of(const Problem& p, const TensorSet& inputs, const Semantics& s) {
  const StageTruth truth = grouped_gemm_truth(p, inputs, all_rows(p.shape.pairs()), {&s, true, false, 2});
  const auto bits = truth.at("c").bits.as<std::uint16_t>();
  return {bits.begin(), bits.end()};
}

/// Places the k's of every row of `t` [.., k] in another order: new column i holds old column from[i].
template <class T>
void permute(Tensor& t, const std::vector<std::int64_t>& from) {
  const auto k = from.size();
  const auto values = t.as<T>();
  std::vector<T> row(k);
  for (std::size_t first = 0; first < values.size(); first += k) {
    for (std::size_t i = 0; i < k; ++i) row[i] = values[first + std::size_t(from[i])];
    std::copy(row.begin(), row.end(), values.begin() + std::ptrdiff_t(first));
  }
}

std::vector<std::int64_t> shuffled(std::int64_t n, std::mt19937& random) {
  std::vector<std::int64_t> order(std::size_t(n), 0);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Another order of the k's: any for one scale over K; blocks, and inside each block, for block scales.
void permute_k(const Problem& p, TensorSet& inputs, std::mt19937& random) {
  const std::int64_t k = inputs.at("a_codes").dim(1);
  std::vector<std::int64_t> order = shuffled(k, random);
  if (p.quant.block()) {
    const auto blocks = shuffled(k / 128, random);
    for (std::int64_t b = 0; b < k / 128; ++b) {
      const auto inner = shuffled(128, random);
      for (std::int64_t i = 0; i < 128; ++i)
        order[std::size_t(b * 128 + i)] = blocks[std::size_t(b)] * 128 + inner[std::size_t(i)];
    }
    permute<float>(inputs.at("a_scale"), blocks);
    permute<float>(inputs.at("w_scale"), blocks);
  }
  permute<std::uint8_t>(inputs.at("a_codes"), order);
  permute<std::uint8_t>(inputs.at("w"), order);
}

// Would catch exact data with a sum that needs more than 13 fraction bits, or whose blocks do not add up
// exactly in fp32: then order, promotion or accumulator would show.
TEST(ExactData, AGroupedGemmHasOneAnswer) {
  std::mt19937 random(7);
  for (const char* scheme : kSchemes) {
    for (const int k : {384, 7168, 14336}) {
      const Case c = parse_case(
          "op=grouped_gemm contract=offsets tokens=3 hidden=" + std::to_string(k) +
          " inter=128 experts=2 top_k=1 bias=1 data=exact scale_layout=row layout=swap_ab quant=" + scheme);
      const TensorSet inputs = make_inputs(c.problem, routing_of(c.problem), 2);
      const Tensor real = spec_grouped_gemm(c.problem, inputs, 2);
      const std::vector<std::uint16_t> due(real.as<std::uint16_t>().begin(), real.as<std::uint16_t>().end());
      EXPECT_GT(std::set<std::uint16_t>(due.begin(), due.end()).size(), 60u) << "data that say little";
      const auto orders = every_order(c.problem.quant);
      for (const Semantics& s : orders)
        ASSERT_EQ(gemm_bits_of(c.problem, inputs, s), due) << scheme << " " << k << " " << s;
      for (int trial = 0; trial < 6; ++trial) {
        TensorSet other = own_copy(inputs);
        permute_k(c.problem, other, random);
        const Semantics& s = orders[random() % orders.size()];
        ASSERT_EQ(gemm_bits_of(c.problem, other, s), due) << scheme << " " << k << " permuted, " << s;
      }
    }
  }
}

// Shows that the test above can fail: with normal data accumulators and promotion intervals show.
TEST(ExactData, NormalDataHaveManyAnswers) {
  const Case c = parse_case(
      "op=grouped_gemm contract=offsets tokens=3 hidden=7168 inter=128 experts=2 top_k=1 scale_layout=row "
      "layout=swap_ab "
      "quant=token_channel");
  const TensorSet inputs = make_inputs(c.problem, routing_of(c.problem), 2);
  std::set<std::vector<std::uint16_t>> answers;
  for (const Semantics& s : every_order(c.problem.quant)) answers.insert(gemm_bits_of(c.problem, inputs, s));
  EXPECT_GE(answers.size(), 5u);
}

/// A layer whose routing weights are 1 / top_k, as those of a trace without weights.
TensorSet layer_inputs(const Problem& p) {
  TensorSet inputs;
  const Routing routing = routing_of(p);
  const TensorSet made = make_inputs(p, routing, 2);
  for (const Tensor& t : made.all())
    if (t.name() != "router_logits" && t.name() != "router_bias") inputs.add(t);
  Tensor ids("topk_ids", DType::i32, {p.shape.tokens, p.shape.top_k}),
      weights("topk_weights", DType::f32, {p.shape.tokens, p.shape.top_k});
  std::copy(routing.ids.begin(), routing.ids.end(), ids.as<std::int32_t>().begin());
  for (float& w : weights.as<float>()) w = 1.0f / float(p.shape.top_k);
  inputs.add(std::move(ids));
  inputs.add(std::move(weights));
  return inputs;
}

std::size_t nonzero(const Tensor& t) {
  std::size_t count = 0;
  for (const std::uint16_t code : t.as<std::uint16_t>()) count += (code & 0x7FFF) != 0;
  return count;
}

/// Whether two runs agree to the bit; gemm2 carries the routing weight, a power of two, where Semantics says
/// so.
bool same_stage(const Tensor& due, const Tensor& got, const Semantics& s, int top_k) {
  if (due.name() != "gemm2" || s.weight_place != WeightPlace::gemm2)
    return std::memcmp(due.data(), got.data(), due.bytes()) == 0;
  const auto a = due.as<std::uint16_t>(), b = got.as<std::uint16_t>();
  return std::equal(a.begin(), a.end(), b.begin(), [&](std::uint16_t x, std::uint16_t y) {
    return decode_bf16(x) == decode_bf16(y) * float(top_k);
  });
}

// Would catch any stage of an exact layer that rounds: all presets, whose roundings differ in every stage,
// must agree.
TEST(ExactData, AWholeLayerHasOneAnswer) {
  for (const char* scheme : kSchemes) {
    for (const char* more :
         {"hidden=1024 inter=512 experts=4 top_k=4 act=silu_mul", "hidden=128 inter=14336 experts=2 top_k=1",
          "hidden=7168 inter=256 experts=4 top_k=2 act=gelu_tanh_mul bias=1 ep=2 rank=1"}) {
      const Case c = parse_case(std::string("op=moe_layer tokens=5 data=exact layout=swap_ab ") + more +
                                " quant=" + scheme);
      const Problem& p = c.problem;
      ASSERT_TRUE(exact_layer_data(p));
      const TensorSet inputs = layer_inputs(p);
      const TensorSet due = spec_layer(p, semantics_preset("moeproof", p.quant), inputs, 2);
      const auto orders = every_order(p.quant);
      const std::size_t step = p.shape.hidden == 1024 ? 1 : 7;  // all orders for one size, to save time
      for (std::size_t i = 0; i < orders.size(); i += i < 6 ? 1 : step) {
        const Semantics& s = orders[i];
        const TensorSet got = exact_layer(p, s, inputs, 2);
        for (const Tensor& t : due.all())
          ASSERT_TRUE(same_stage(t, got.at(t.name()), s, p.shape.top_k))
              << to_line(c) << ": " << t.name() << " under " << s;
      }
      const auto codes = due.at("act_codes").as<std::uint8_t>();
      EXPECT_GT(std::set<std::uint8_t>(codes.begin(), codes.end()).size(), 8u) << to_line(c);
      EXPECT_GT(double(nonzero(due.at("gemm2"))), 0.3 * double(due.at("gemm2").size())) << to_line(c);
      EXPECT_GT(double(nonzero(due.at("out"))), 0.3 * double(due.at("out").size())) << to_line(c);
    }
  }
}

// Would catch activations of an exact layer that are no whole multiples of a unit, or sums of GEMM 2 too
// large for an accumulator with 13 fraction bits (the presets above might agree by luck).
TEST(ExactData, TheSecondGemmOfALayerIsExact) {
  for (const char* scheme : kSchemes) {
    const Case c = parse_case(std::string("op=moe_layer tokens=3 hidden=128 inter=14336 experts=2 top_k=1 "
                                          "data=exact layout=swap_ab quant=") +
                              scheme);
    const TensorSet inputs = layer_inputs(c.problem);
    const TensorSet out = spec_layer(c.problem, semantics_preset("moeproof", c.problem.quant), inputs, 2);
    const double unit = c.problem.quant.block() ? 1 : 0.25;
    for (std::int64_t pair = 0; pair < 3; ++pair) {
      const auto codes = out.at("act_codes").as<std::uint8_t>().subspan(std::size_t(pair) * 14336, 14336);
      const std::int64_t expert = inputs.at("topk_ids").as<std::int32_t>()[std::size_t(pair)];
      for (std::int64_t n = 0; n < 128; n += 5) {
        const auto w =
            inputs.at("w2").as<std::uint8_t>().subspan(std::size_t((expert * 128 + n) * 14336), 14336);
        double sum = 0;
        for (std::size_t k = 0; k < 14336; ++k) {
          const double product = double(decode_e4m3(codes[k])) * decode_e4m3(w[k]) / unit;
          ASSERT_EQ(product, std::floor(product));
          sum += std::fabs(product);
        }
        ASSERT_LT(sum, 16384) << scheme;
        ASSERT_GT(sum, 500) << scheme;
      }
    }
  }
}

// Would catch nasty data whose right result is not finite under the built-in kernels' Semantics: nothing
// could be judged.
TEST(NastyData, ALayerStaysFiniteToTheBit) {
  for (const char* scheme : kSchemes) {
    const Case c = parse_case(std::string("op=moe_layer tokens=64 hidden=512 inter=256 experts=32 top_k=4 "
                                          "data=nasty layout=swap_ab quant=") +
                              scheme);
    const TensorSet inputs = make_inputs(c.problem, routing_of(c.problem), 2);
    const TensorSet out = exact_layer(c.problem, semantics_preset("moeproof", c.problem.quant), inputs, 2);
    for (const char* name : {"gemm1", "gemm2", "out"})
      for (const std::uint16_t code : out.at(name).as<std::uint16_t>())
        ASSERT_TRUE(std::isfinite(decode_bf16(code))) << scheme << name;
    EXPECT_GT(nonzero(out.at("out")), 0u);
  }
}

}  // namespace
}  // namespace moe::reference
