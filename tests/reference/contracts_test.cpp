// Are the four contracts of grouped_gemm one and the same GEMM? The same rows are written down as routed,
// contiguous, masked and offsets, in both layouts of scales, and must give the same bits and the same
// intervals; sampled rows must equal those rows of a full run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fixtures/problem/errors.hpp"
#include "layer_draw.hpp"
#include "reference/layer.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

constexpr std::int64_t kExperts = 3, kMaxRows = 5;

// Rows of each expert, codes [rows][K] and scales [rows][K / 128]: what every contract has to multiply.
struct Rows {
  Problem problem;
  std::int64_t n = 128, k = 256, pairs = 0;
  std::vector<std::vector<std::int64_t>> of_expert;  // numbers of the source rows
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  TensorSet weights;
};

Rows draw_rows(draw::Random& random) {
  Rows rows;
  rows.problem.op = Op::grouped_gemm;
  rows.problem.gemm = 2;  // routed: the activation row is the pair itself
  rows.problem.quant.scale_layout = ScaleLayout(random() % 2);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    rows.of_expert.emplace_back();
    for (std::uint64_t r = random() % (kMaxRows + 1); r > 0; --r)
      rows.of_expert.back().push_back(rows.pairs++);
  }
  rows.problem.shape = {
      .tokens = rows.pairs, .hidden = rows.n, .intermediate = rows.k, .experts = int(kExperts), .top_k = 1};
  for (std::int64_t i = 0; i < rows.pairs * rows.k; ++i)
    rows.codes.push_back(encode_e4m3(100 * draw::number(random, draw::Flavour::normal)));
  for (std::int64_t i = 0; i < rows.pairs * (rows.k / 128); ++i)
    rows.scales.push_back(0.01f + 0.001f * float(random() % 10));
  rows.weights.add(draw::code_tensor(random, draw::Flavour::normal, "w", {kExperts, rows.n, rows.k}));
  rows.weights.add(
      draw::float_tensor(random, 2e-4f, 1e-3f, "w_scale", {kExperts, rows.n / 128, rows.k / 128}));
  return rows;
}

// Inputs of one contract, and the output row of each source row. Rows that nobody owns hold NaN codes and NaN
// scales.
struct Written {
  TensorSet inputs;
  std::vector<std::int64_t> out_row;  // [pairs]
};

Written write(const Rows& rows, Contract contract) {
  Written written;
  written.out_row.resize(std::size_t(rows.pairs));
  std::int64_t total = contract == Contract::masked ? kExperts * kMaxRows : 0;
  std::vector<std::int32_t> group_of_row, offsets{0}, counts, sorted, experts;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const auto& mine = rows.of_expert[std::size_t(e)];
    counts.push_back(std::int32_t(mine.size()));
    for (std::size_t r = 0; r < mine.size(); ++r) {
      std::int64_t& out = written.out_row[std::size_t(mine[r])];
      out = contract == Contract::masked   ? e * kMaxRows + std::int64_t(r)
            : contract == Contract::routed ? mine[r]
                                           : total++;
      if (contract == Contract::contiguous) group_of_row.push_back(std::int32_t(e));
      sorted.push_back(std::int32_t(mine[r]));
    }
    if (contract == Contract::contiguous)
      for (; total % 128 != 0; ++total) group_of_row.push_back(-1);
    if (contract == Contract::routed) {
      for (; sorted.size() % 8 != 0;) sorted.push_back(std::int32_t(rows.pairs));
      for (; experts.size() < sorted.size() / 8;) experts.push_back(std::int32_t(e));
    }
    offsets.push_back(std::int32_t(total));
  }
  if (contract == Contract::routed) total = rows.pairs;
  const bool masked = contract == Contract::masked,
             mn = rows.problem.quant.scale_layout == ScaleLayout::mn_major;
  const std::int64_t blocks = rows.k / 128, ld = (total + 3) / 4 * 4;
  Tensor a("a_codes", DType::e4m3,
           masked ? std::vector<std::int64_t>{kExperts, kMaxRows, rows.k}
                  : std::vector<std::int64_t>{total, rows.k});
  Tensor s("a_scale", DType::f32,
           mn ? std::vector<std::int64_t>{blocks, ld} : std::vector<std::int64_t>{total, blocks});
  std::fill(a.as<std::uint8_t>().begin(), a.as<std::uint8_t>().end(), std::uint8_t(0x7F));
  std::fill(s.as<float>().begin(), s.as<float>().end(), NAN);
  for (std::int64_t p = 0; p < rows.pairs; ++p) {
    const std::int64_t out = written.out_row[std::size_t(p)];
    std::copy_n(rows.codes.begin() + p * rows.k, rows.k, a.as<std::uint8_t>().begin() + out * rows.k);
    for (std::int64_t b = 0; b < blocks; ++b)
      s.as<float>()[std::size_t(mn ? b * ld + out : out * blocks + b)] =
          rows.scales[std::size_t(p * blocks + b)];
  }
  const auto add_ids = [&](const char* name, const std::vector<std::int32_t>& values) {
    Tensor tensor(name, DType::i32, {std::int64_t(values.size())});
    std::copy(values.begin(), values.end(), tensor.as<std::int32_t>().begin());
    written.inputs.add(std::move(tensor));
  };
  if (contract == Contract::contiguous) add_ids("group_of_row", group_of_row);
  if (contract == Contract::masked) add_ids("counts", counts);
  if (contract == Contract::offsets) add_ids("offsets", offsets);
  if (contract == Contract::routed) {
    add_ids("num_tokens_post_padded", {std::int32_t(sorted.size())});
    add_ids("sorted_token_ids", sorted);
    add_ids("expert_ids", experts);
  }
  for (const Tensor& tensor : rows.weights.all()) written.inputs.add(tensor);
  written.inputs.add(std::move(a));
  written.inputs.add(std::move(s));
  return written;
}

// Catches: a contract that reads a padding row, another row's scale, another group's weights, or numbers its
// output rows differently; a sample that is not the sample of the whole.
RC_GTEST_PROP(Contracts, AllFourAreOneGemm, (std::uint64_t seed)) {
  draw::Random random(seed);
  Rows rows = draw_rows(random);
  RC_PRE(rows.pairs > 0);
  const Semantics semantics;
  const TruthOptions options{&semantics, true, true, 2};
  std::vector<std::vector<std::uint16_t>> bits;
  std::vector<std::vector<float>> low;
  for (const Contract contract :
       {Contract::offsets, Contract::masked, Contract::contiguous, Contract::routed}) {
    rows.problem.contract = contract;
    const Written written = write(rows, contract);
    const StageTruth truth = grouped_gemm_truth(rows.problem, written.inputs, written.out_row, options);
    const TensorTruth& c = truth.at("c");
    RC_ASSERT(std::int64_t(c.rows.size()) == rows.pairs);
    bits.emplace_back(std::size_t(rows.pairs * rows.n));
    low.emplace_back(std::size_t(rows.pairs * rows.n));
    for (std::int64_t p = 0; p < rows.pairs; ++p) {
      const auto at =
          std::find(c.rows.begin(), c.rows.end(), written.out_row[std::size_t(p)]) - c.rows.begin();
      std::copy_n(c.bits.as<std::uint16_t>().begin() + at * rows.n, rows.n, bits.back().begin() + p * rows.n);
      std::copy_n(c.low.begin() + at * rows.n, rows.n, low.back().begin() + p * rows.n);
    }
    RC_ASSERT(bits.back() == bits.front());
    RC_ASSERT(low.back() == low.front());
    const std::vector<std::int64_t> one{written.out_row[random() % written.out_row.size()]};
    const StageTruth sample = grouped_gemm_truth(rows.problem, written.inputs, one, options);
    const auto at = std::find(c.rows.begin(), c.rows.end(), one[0]) - c.rows.begin();
    RC_ASSERT(
        std::equal(sample.at("c").high.begin(), sample.at("c").high.end(), c.high.begin() + at * rows.n));
    RC_ASSERT(std::equal(sample.at("c").bits.as<std::uint16_t>().begin(),
                         sample.at("c").bits.as<std::uint16_t>().end(),
                         c.bits.as<std::uint16_t>().begin() + at * rows.n));
  }
  // One element by a plain loop, so that all four cannot be wrong together.
  const std::int64_t expert = std::int64_t(
      std::find_if(rows.of_expert.begin(), rows.of_expert.end(), [](const auto& r) { return !r.empty(); }) -
      rows.of_expert.begin());
  const std::int64_t pair = rows.of_expert[std::size_t(expert)][0], column = std::int64_t(random() % 128);
  double sum = 0, size = 0;
  for (std::int64_t k = 0; k < rows.k; ++k) {
    const double p =
        double(decode_e4m3(rows.codes[std::size_t(pair * rows.k + k)])) *
        rows.scales[std::size_t(pair * 2 + k / 128)] *
        decode_e4m3(
            rows.weights.at("w").as<std::uint8_t>()[std::size_t((expert * rows.n + column) * rows.k + k)]) *
        rows.weights.at("w_scale").as<float>()[std::size_t(expert * 2 + k / 128)];
    sum += p, size += std::fabs(p);
  }
  RC_ASSERT(std::fabs(decode_bf16(bits[0][std::size_t(pair * rows.n + column)]) - sum) <= 0.01 * size);
}

// Catches: bad groups that are computed instead of refused.
TEST(Contracts, BadGroupsAreRefused) {
  draw::Random random(2);
  Rows rows = draw_rows(random);
  rows.problem.contract = Contract::masked;
  Written masked = write(rows, Contract::masked);
  masked.inputs.at("counts").as<std::int32_t>()[1] = kMaxRows + 1;
  EXPECT_THROW(spec_grouped_gemm(rows.problem, masked.inputs, 1), BadInput);
  rows.problem.contract = Contract::offsets;
  Written offsets = write(rows, Contract::offsets);
  offsets.inputs.at("offsets").as<std::int32_t>()[0] = 1000;
  EXPECT_THROW(spec_grouped_gemm(rows.problem, offsets.inputs, 1), BadInput);
}

// Catches: a sample of pairs or tokens whose bits or intervals differ from the whole's, in any stage and
// scheme.
RC_GTEST_PROP(Contracts, SampledRowsEqualTheWhole, (std::uint64_t seed)) {
  draw::Random random(seed);
  const draw::Layer layer = draw::layer(random, QuantKind(random() % 4));
  const Problem& problem = layer.problem;
  const Semantics semantics;
  const TruthOptions options{&semantics, true, true, 2};
  const TensorSet outputs = exact_layer(problem, semantics, layer.inputs, 2);
  const StageTensors tensors{layer.inputs, outputs};
  const std::int64_t token = std::int64_t(random() % std::uint64_t(problem.shape.tokens));
  const std::vector<std::int64_t> tokens{token}, pairs{token * problem.shape.top_k};
  const auto check = [&](const StageTruth& part) {
    for (const TensorTruth& truth : part.tensors)
      for (std::size_t r = 0; r < truth.rows.size(); ++r) {
        const std::size_t bytes = std::size_t(truth.columns) * size_of(truth.type);
        RC_ASSERT(std::equal(truth.bits.data() + r * bytes, truth.bits.data() + (r + 1) * bytes,
                             outputs.at(truth.tensor).data() + std::size_t(truth.rows[r]) * bytes));
      }
  };
  check(quantize_truth(problem, tensors, tokens, options));
  check(gemm_truth(problem, 1, tensors, pairs, options));
  check(act_quant_truth(problem, tensors, pairs, options));
  check(gemm_truth(problem, 2, tensors, pairs, options));
  check(combine_truth(problem, tensors, tokens, options));
}

}  // namespace
}  // namespace moe::reference
