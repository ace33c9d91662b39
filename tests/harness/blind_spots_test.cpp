// Which wrong outputs do the usual rules of comparison let through? Each test plants the output of a
// plausible kernel fault; the public rule passes it and moeproof fails it (rules and their sources:
// common_metrics.hpp). A test fails when moeproof goes blind, and when the rule no longer is, for then the
// test shows nothing.
#include <gtest/gtest.h>

#include <random>

#include "reference/layer.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

using namespace metrics;

std::uint16_t* row_of(TensorSet& set, const char* tensor, std::int64_t row) {
  Tensor& t = set.at(tensor);
  return t.as<std::uint16_t>().data() + row * t.dim(1);
}
void zero(TensorSet& set, const char* tensor, std::int64_t row, std::int64_t column, std::int64_t columns) {
  std::fill_n(row_of(set, tensor, row) + column, columns, std::uint16_t{0});
}
/// Exchanges the bytes of two equal parts of a tensor.
void exchange(Tensor& t, std::size_t a, std::size_t b, std::size_t bytes) {
  std::swap_ranges(t.data() + a, t.data() + a + bytes, t.data() + b);
}

// A global similarity weighs one tile against all others: 128 x 128 outputs of 1280 x 7168 never written but
// zeroed.
TEST(BlindSpots, OneMissingTileUnderAGlobalSimilarity) {
  const auto kernel = miswriting([](const Case&, TensorSet& out) {
    for (int row = 768; row < 896; ++row) zero(out, "c", row, 10 * 128, 128);
  });
  const Trial t = try_kernel(
      "op=grouped_gemm contract=offsets gemm=2 tokens=1280 hidden=7168 inter=128 experts=2 top_k=1 "
      "load=balanced "
      "layout=normal_wgmma tile=128x128x128",
      kernel);
  expect_blind("one 128x128 tile missing", calc_diff(values(t.got.at("c")), values(t.due.at("c"))),
               t.verdict);
  EXPECT_EQ(t.verdict.fault_class, "zeros in one tile of expert 1");
}

// The same with whole rows: the last row of each expert dropped by an off-by-one in the row count.
TEST(BlindSpots, DroppedLastRowOfEachExpert) {
  const auto kernel = miswriting([](const Case&, TensorSet& out) {
    for (int row = 1023; row < 8192; row += 1024) zero(out, "c", row, 0, 256);
  });
  const Trial t = try_kernel(
      "op=grouped_gemm contract=offsets tokens=8192 hidden=128 inter=128 experts=8 top_k=1 load=balanced "
      "layout=swap_ab tile=64x128x128",
      kernel);
  expect_blind("the last row of every expert is zero",
               calc_diff(values(t.got.at("c")), values(t.due.at("c"))), t.verdict);
}

// A mean over all tokens: the last token's output never computed.
TEST(BlindSpots, DroppedLastTokenUnderAMean) {
  const auto kernel =
      miswriting([](const Case& c, TensorSet& out) { zero(out, "out", c.problem.shape.tokens - 1, 0, 256); });
  const Trial t = try_kernel(
      "op=moe_layer tokens=101 hidden=256 inter=128 experts=4 top_k=2 layout=swap_ab tile=8x128x128", kernel);
  expect_blind("the last of 101 tokens is zero",
               sglang_mean(values(t.got.at("out")), values(t.due.at("out"))), t.verdict);
}

constexpr const char* kSmallData =
    "op=moe_layer tokens=32 hidden=512 inter=256 experts=8 top_k=2 scale=0.002 layout=swap_ab tile=8x128x128";

// An absolute tolerance above the data: a kernel that never ran and left zeros.
TEST(BlindSpots, ZerosUnderAnAbsoluteToleranceLargerThanTheData) {
  const auto kernel = miswriting([](const Case&, TensorSet& out) {
    for (const char* stage : {"gemm1", "gemm2", "out"})
      std::memset(out.at(stage).data(), 0, out.at(stage).bytes());
  });
  const Trial t = try_kernel(kSmallData, kernel);
  expect_blind("all zero, outputs below 0.035", vllm_close(values(t.got.at("out")), values(t.due.at("out"))),
               t.verdict);
}

// The same with noise that has nothing to do with the layer (an unwritten buffer of an earlier layer).
TEST(BlindSpots, NoiseUnderAShareWithinATolerance) {
  const auto kernel = miswriting([](const Case&, TensorSet& out) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.004f);
    for (std::uint16_t& code : out.at("out").as<std::uint16_t>()) code = encode_bf16(normal(random));
  });
  const Trial t = try_kernel(kSmallData, kernel);
  expect_blind("noise of the right size", flashinfer_share(values(t.got.at("out")), values(t.due.at("out"))),
               t.verdict);
}

// An envelope wide enough for any FP8 pipeline: combine stops one slot early.
TEST(BlindSpots, AMissingSlotOfCombineUnderAWideEnvelope) {
  const auto kernel = [](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet out = right_outputs(c, inputs), short_sum = own_copy(out);
    const int k = c.problem.shape.top_k;
    auto weights = short_sum.at("topk_weights").as<float>();
    for (std::size_t slot = std::size_t(k) - 1; slot < weights.size(); slot += std::size_t(k))
      weights[slot] = 0;
    const Semantics s = semantics_preset("moeproof", {});
    const reference::TruthOptions options{&s, true, false, 2};
    std::vector<std::int64_t> tokens(std::size_t(c.problem.shape.tokens), 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::int64_t(i);
    const auto truth = reference::combine_truth(c.problem, {inputs, short_sum}, tokens, options);
    std::memcpy(out.at("out").data(), truth.at("out").bits.data(), out.at("out").bytes());
    return out;
  };
  const Trial t = try_kernel(
      "op=moe_layer tokens=64 hidden=512 inter=128 experts=32 top_k=8 layout=swap_ab tile=8x128x128", kernel);
  expect_blind("the last of 8 slots is left out",
               flashinfer_envelope(values(t.got.at("out")), values(t.due.at("out"))), t.verdict);
  EXPECT_EQ(t.verdict.worst->stage, "out");
}

constexpr const char* kLongGemm =
    "op=grouped_gemm contract=offsets tokens=48 hidden=7168 inter=128 experts=2 top_k=1 layout=swap_ab "
    "tile=16x128x128 "
    "scale_layout=row";

// Cosine does not see size at all: a scale that is applied with its exponent off by one.
TEST(BlindSpots, AScaleOffByAPowerOfTwoUnderCosine) {
  const auto kernel = misreading([](TensorSet& in) {
    for (float& s : in.at("a_scale").as<float>()) s *= 2;
  });
  const Trial t = try_kernel(kLongGemm, kernel);
  expect_blind("all outputs twice what they should be", cosine(values(t.got.at("c")), values(t.due.at("c"))),
               t.verdict);
  EXPECT_NE(t.verdict.fault_class.find("factor of 2"), std::string::npos) << t.verdict.fault_class;
}

// Nor does it see one k-block of 56 whose scale is that of the block before.
TEST(BlindSpots, AStaleScaleOfTheLastBlockUnderCosine) {
  const auto kernel = misreading([](TensorSet& in) {
    Tensor& s = in.at("a_scale");
    const std::size_t blocks = std::size_t(s.dim(1));
    for (std::size_t row = 0; row < std::size_t(s.dim(0)); ++row)
      s.as<float>()[row * blocks + blocks - 1] = s.as<float>()[row * blocks + blocks - 2];
  });
  const Trial t = try_kernel(kLongGemm, kernel);
  expect_blind("the last k-block under its neighbour's scale",
               cosine(values(t.got.at("c")), values(t.due.at("c"))), t.verdict);
}

// NaN is larger than no tolerance: one NaN per row.
TEST(BlindSpots, NanUnderALargestError) {
  const auto kernel = miswriting([](const Case&, TensorSet& out) {
    for (int row = 0; row < 48; ++row) row_of(out, "c", row)[row] = 0x7FC0 + row % 3;
  });
  const Trial t = try_kernel(kLongGemm, kernel);
  expect_blind("one NaN in every row", largest_error(values(t.got.at("c")), values(t.due.at("c")), 0),
               t.verdict);
}

// nan_to_num turns NaN into the zero that a dead expert's output should be near.
TEST(BlindSpots, NanUnderNanToNum) {
  const auto kernel = miswriting(
      [](const Case&, TensorSet& out) { std::fill_n(row_of(out, "out", 7), 512, std::uint16_t{0x7FC0}); });
  const Trial t = try_kernel(kSmallData, kernel);
  Metric m = vllm_close(nan_to_num(values(t.got.at("out"))), values(t.due.at("out")));
  m.name += " behind nan_to_num";
  expect_blind("a token of NaN", m, t.verdict);
  EXPECT_NE(t.verdict.fault_class.find("NaN"), std::string::npos) << t.verdict.fault_class;
}

/// Gate rows where up rows belong.
void gate_and_up_exchanged(TensorSet& in) {
  for (const char* name : {"w13", "w13_scale"}) {
    Tensor& t = in.at(name);
    const std::size_t expert = t.bytes() / std::size_t(t.dim(0)), half = expert / 2;
    for (std::size_t e = 0; e < std::size_t(t.dim(0)); ++e) exchange(t, e * expert, e * expert + half, half);
  }
}

// A reference that shares the kernel's convention: both take the first half of w13 for up.
TEST(BlindSpots, AConventionThatTheReferenceShares) {
  const Trial t = try_kernel(
      "op=moe_layer tokens=16 hidden=256 inter=256 experts=4 top_k=2 layout=swap_ab tile=8x128x128",
      misreading(gate_and_up_exchanged));
  TensorSet read = own_copy(t.inputs);
  gate_and_up_exchanged(read);
  const Semantics s = semantics_preset("moeproof", {});
  const TensorSet shared = reference::spec_layer(t.c.problem, s, read, 2);
  expect_blind("gate and up exchanged, in the reference too",
               calc_diff(values(t.got.at("out")), values(shared.at("out"))), t.verdict);
}

// A reference that is another kernel behind the same helper: an align kernel that loses the last row of an
// odd expert.
TEST(BlindSpots, AnotherKernelAsReference) {
  const auto lose_rows = [](const TensorSet& inputs, TensorSet& out) {
    const auto offsets = inputs.at("offsets").as<std::int32_t>();
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
      if ((offsets[e + 1] - offsets[e]) % 2 == 1) zero(out, "c", offsets[e + 1] - 1, 0, out.at("c").dim(1));
  };
  const auto kernel = [lose_rows](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet out = right_outputs(c, inputs);
    lose_rows(inputs, out);
    return out;
  };
  const Trial t = try_kernel(
      "op=grouped_gemm contract=offsets tokens=47 hidden=2048 inter=128 experts=2 top_k=1 layout=swap_ab "
      "tile=16x128x128",
      kernel);
  TensorSet other;  // real sums: another kernel with other roundings
  other.add(reference::spec_grouped_gemm(t.c.problem, t.inputs, 2));
  lose_rows(t.inputs, other);
  expect_blind("rows lost by a helper that both kernels use",
               vllm_close(values(t.got.at("c")), values(other.at("c"))), t.verdict);
}

// Only the first group compared (NVIDIA/cutlass issue 3511): experts 2 and 3, of equal loads, read each
// other's weights.
TEST(BlindSpots, SwappedExpertsWhenOnlyTheFirstIsCompared) {
  const auto kernel = misreading([](TensorSet& in) {
    for (const char* name : {"w", "w_scale"}) {
      Tensor& t = in.at(name);
      const std::size_t expert = t.bytes() / std::size_t(t.dim(0));
      exchange(t, 2 * expert, 3 * expert, expert);
    }
  });
  const Trial t = try_kernel(
      "op=grouped_gemm contract=offsets tokens=64 hidden=512 inter=128 experts=4 top_k=1 load=balanced "
      "layout=swap_ab "
      "tile=16x128x128",
      kernel);
  Values got = values(t.got.at("c")), due = values(t.due.at("c"));
  got.resize(16 * 256), due.resize(16 * 256);
  Metric m = calc_diff(got, due);
  m.name += " of expert 0";
  expect_blind("experts 2 and 3 read each other's weights", m, t.verdict);
}

}  // namespace
}  // namespace moe::harness
