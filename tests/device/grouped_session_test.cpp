// grouped_gemm under its four contracts against reference's exact GEMM, row by row in the caller's order.
#include <gtest/gtest.h>

#include <set>

#include "fixtures/problem/errors.hpp"
#include "session_check.hpp"

namespace moe::device::test {
namespace {

constexpr std::uint16_t kUntouched = 0xFFFF;  // the poison of an output that was never written

struct Source {
  std::int32_t expert;  // -1: no group owns the row; -2: it must be zero
  std::int64_t a_row;
};

/// Which expert and which activation row belong to each row of c, by the contract's text.
std::vector<Source> sources(const Case& c, const TensorSet& in) {
  const Problem& p = c.problem;
  std::vector<Source> rows;
  switch (p.contract) {
    case Contract::routed: {
      rows.assign(std::size_t(p.shape.pairs()), {-1, 0});
      const auto ids = values<std::int32_t>(in, "sorted_token_ids"),
                 experts = values<std::int32_t>(in, "expert_ids");
      for (int i = 0; i < values<std::int32_t>(in, "num_tokens_post_padded")[0]; ++i) {
        const std::int32_t pair = ids[std::size_t(i)],
                           expert = experts[std::size_t(i / c.choice.tile.block_m)];
        if (pair < p.shape.pairs())
          rows[std::size_t(pair)] = {expert < 0 ? -2 : expert, p.gemm == 1 ? pair / p.shape.top_k : pair};
      }
      break;
    }
    case Contract::contiguous:
      for (std::int32_t e : values<std::int32_t>(in, "group_of_row"))
        rows.push_back({e, std::int64_t(rows.size())});
      break;
    case Contract::masked:
      for (std::size_t e = 0; e < in.at("counts").as<std::int32_t>().size(); ++e) {
        for (std::int64_t i = 0; i < in.at("a_codes").dim(1); ++i) {
          rows.push_back(
              {i < values<std::int32_t>(in, "counts")[e] ? std::int32_t(e) : -1, std::int64_t(rows.size())});
        }
      }
      break;
    case Contract::offsets: {
      const auto offsets = values<std::int32_t>(in, "offsets");
      for (std::int32_t e = 0; e + 1 < std::int32_t(offsets.size()); ++e) {
        for (std::int32_t r = offsets[std::size_t(e)]; r < offsets[std::size_t(e) + 1]; ++r)
          rows.push_back({e, r});
      }
      break;
    }
  }
  return rows;
}

std::vector<std::uint16_t> expected(const Case& c, const TensorSet& in, const std::vector<Source>& rows) {
  const Tensor &w = in.at("w"), &w_scale = in.at("w_scale"), &a_scale = in.at("a_scale");
  const std::int64_t n = w.dim(1), k = w.dim(2), w_scales = w_scale.size() / w.dim(0);
  std::vector<std::uint16_t> want(rows.size() * std::size_t(n), kUntouched);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::uint16_t* out = want.data() + std::int64_t(r) * n;
    if (rows[r].expert == -2) std::fill_n(out, n, std::uint16_t(0));
    if (rows[r].expert < 0) continue;
    const auto a_row = std::int32_t(rows[r].a_row);
    reference::GemmOperands g;
    g.a = in.at("a_codes").as<std::uint8_t>().data();
    g.lda = k;
    g.a_rows = &a_row;
    g.a_scale = reference::activation_scales(c.problem.quant, a_scale.as<float>().data(), k,
                                             c.problem.quant.block() ? a_scale.dim(1) : 0);
    g.w = w.as<std::uint8_t>().data() + rows[r].expert * n * k;
    g.ldw = k;
    g.w_scale =
        reference::weight_scales(c.problem.quant, w_scale.as<float>().data() + rows[r].expert * w_scales, k);
    g.rows = 1;
    g.n = n;
    g.k = k;
    g.scheme = c.problem.quant;
    reference::exact_gemm_bf16(moeproof_kernel().semantics(c.problem, c.choice).value(), g, out, 1);
  }
  return want;
}

Case small_case(Contract contract, int gemm, QuantScheme quant, Layout layout, int block_m) {
  Case c;
  c.problem.op = Op::grouped_gemm;
  c.problem.contract = contract;
  c.problem.gemm = gemm;
  c.problem.quant = quant;
  c.problem.data = DataMode::nasty;  // NaN in padding rows
  MoeShape& s = c.problem.shape;
  s.tokens = 7;
  s.experts = 6;
  s.top_k = 3;
  s.hidden = quant.block() ? 128 : 104;
  s.intermediate = quant.block() ? 256 : 88;
  c.choice.layout = layout;
  c.choice.tile = {block_m, 128};
  c.choice.tile_down = c.choice.tile;
  return c;
}

void check_case(const Case& c) {
  SCOPED_TRACE(to_line(c));
  const auto executor = exact_executor();
  Opened opened = executor->open(c);
  ASSERT_TRUE(opened.session) << opened.refusal;
  const TensorSet inputs = make_inputs(c.problem, c.choice, routing_of(c.problem), 1);
  opened.session->bind(inputs);
  const RunResult result = opened.session->run(RunMode::eager);
  EXPECT_EQ(values<std::uint16_t>(result.outputs, "c"), expected(c, inputs, sources(c, inputs)));
  EXPECT_TRUE(result.reports.empty()) << result.reports[0];
}

// Would catch: a row taken for the wrong expert, padding that reaches an output, scales read in the other
// layout, a row of another rank that is not zero, a row that nobody owns and that is written all the same.
TEST(GroupedSession, EveryContractEqualsTheReference) {
  constexpr QuantScheme kBlockRow{QuantKind::block128, ScaleFormat::f32, ScaleLayout::row};
  for (Contract contract : {Contract::routed, Contract::contiguous, Contract::masked, Contract::offsets}) {
    for (int gemm : {1, 2}) {
      check_case(small_case(contract, gemm, {QuantKind::block128}, Layout::swap_ab, 16));
      check_case(small_case(contract, gemm, kBlockRow, Layout::normal_mma, 32));
      check_case(small_case(contract, gemm, {QuantKind::token_channel}, Layout::normal_wgmma, 64));
      check_case(small_case(contract, gemm, {QuantKind::tensor_static}, Layout::swap_ab, 8));
    }
  }
}

// Would catch: rows of another rank's blocks left as they were.
TEST(GroupedSession, RoutedRanksZeroForeignRows) {
  for (int rank : {0, 2}) {
    Case c = small_case(Contract::routed, 1, {QuantKind::block128}, Layout::swap_ab, 8);
    c.problem.shape.ep = 3;
    c.problem.rank = rank;
    check_case(c);
  }
}

TensorSet with_changed(const Case& c, const char* name, std::size_t at, std::int32_t value) {
  TensorSet inputs = make_inputs(c.problem, c.choice, routing_of(c.problem), 1);
  inputs.at(name).as<std::int32_t>()[at] = value;
  return inputs;
}

// Would catch: metadata from a user's file that makes a kernel read or write outside its buffers.
TEST(GroupedSession, BadMetadataIsOneClearLine) {
  struct Bad {
    Contract contract;
    const char* tensor;
    std::int32_t value;
  };
  for (const Bad& bad :
       {Bad{Contract::masked, "counts", 1000}, Bad{Contract::offsets, "offsets", 1000},
        Bad{Contract::contiguous, "group_of_row", 6}, Bad{Contract::routed, "expert_ids", 6}}) {
    const Case c = small_case(bad.contract, 1, {QuantKind::block128}, Layout::swap_ab, 16);
    const auto executor = exact_executor();
    Opened opened = executor->open(c);
    ASSERT_TRUE(opened.session) << opened.refusal;
    try {
      opened.session->bind(with_changed(c, bad.tensor, 0, bad.value));
      ADD_FAILURE() << bad.tensor << " was taken";
    } catch (const BadInput& error) {
      EXPECT_NE(std::string(error.what()).find(bad.tensor), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace moe::device::test
