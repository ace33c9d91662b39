// count_rows and place_rows against a plain loop: the plan's invariants and vLLM's align outputs.
#include "device/session/row_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "device/session/launches.hpp"
#include "device/session/pipeline.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

struct Trial {
  std::vector<std::int32_t> ids;
  std::int32_t first = 0, experts = 1;
  int block_m = 8, block_m_down = 64;
};

struct Placed {
  std::vector<std::int32_t> rows, row_start, block_start, block_start_down, row_of_pair, pair_of_row;
};

Placed placed_by_kernel(Machine& machine, const Trial& t) {
  const RowPlan plan = allocate_plan(machine, put(machine, t.ids), std::int64_t(t.ids.size()), t.first,
                                     t.experts, t.block_m, t.block_m_down, true);
  if (needs_count(plan.pairs)) launch_count(machine, plan, false);
  launch_place(machine, plan, true);
  machine.synchronize();
  const auto words = [&](Address a, std::int64_t n) { return download_array<std::int32_t>(machine, a, n); };
  return {words(plan.rows, t.experts),
          words(plan.row_start, t.experts + 1),
          words(plan.block_start[0], t.experts + 1),
          words(plan.block_start[1], t.experts + 1),
          words(plan.row_of_pair, plan.pairs),
          words(plan.pair_of_row, plan.capacity)};
}

/// The contract, by a plain loop.
Placed placed_by_loop(const Trial& t, std::size_t capacity) {
  Placed p;
  p.row_of_pair.assign(t.ids.size(), -1);
  p.pair_of_row.assign(capacity, -1);
  std::int32_t row = 0, blocks = 0, blocks_down = 0;
  for (std::int32_t e = 0; e < t.experts; ++e) {
    p.row_start.push_back(row);
    p.block_start.push_back(blocks);
    p.block_start_down.push_back(blocks_down);
    std::int32_t rows = 0;
    for (std::size_t pair = 0; pair < t.ids.size(); ++pair) {
      if (t.ids[pair] != t.first + e) continue;
      p.row_of_pair[pair] = row + rows;
      p.pair_of_row[std::size_t(row + rows)] = std::int32_t(pair);
      ++rows;
    }
    p.rows.push_back(rows);
    row = std::int32_t(round_up(row + rows, 8));
    blocks += std::int32_t(blocks_of(rows, t.block_m));
    blocks_down += std::int32_t(blocks_of(rows, t.block_m_down));
  }
  p.row_start.push_back(row);
  p.block_start.push_back(blocks);
  p.block_start_down.push_back(blocks_down);
  return p;
}

/// Ids of all sorts: local ones, those of other ranks, -1 and beyond the last expert; some experts stay
/// empty.
Trial drawn_trial(std::uint64_t seed, std::size_t pairs) {
  constexpr int kBlocks[] = {8, 16, 32, 64, 128};
  Trial t;
  t.experts = 1 + std::int32_t(noise(seed, 1) % 40);
  t.first = std::int32_t(noise(seed, 2) % 3) * t.experts;
  t.block_m = kBlocks[noise(seed, 3) % 5];
  t.block_m_down = kBlocks[noise(seed, 4) % 5];
  const std::uint32_t spread = 1 + noise(seed, 5) % std::uint32_t(4 * t.experts);
  for (std::size_t i = 0; i < pairs; ++i)
    t.ids.push_back(std::int32_t(noise(seed, 100 + i) % (spread + 1)) - 1);
  return t;
}

void check(const Trial& t) {
  const auto machine = emulated_machine();
  const Placed got = placed_by_kernel(*machine, t);
  const Placed want = placed_by_loop(t, got.pair_of_row.size());
  RC_ASSERT(got.rows == want.rows);
  RC_ASSERT(got.row_start == want.row_start);
  RC_ASSERT(got.block_start == want.block_start);
  RC_ASSERT(got.block_start_down == want.block_start_down);
  RC_ASSERT(got.row_of_pair == want.row_of_pair);
  RC_ASSERT(got.pair_of_row == want.pair_of_row);
  RC_ASSERT(machine->take_reports().empty());
}

// Would catch: a pair placed twice or not at all, an order that is not ascending, a start off the alignment,
// a foreign id counted, padding left over from the poison, a tail of the ids that is no multiple of four read
// wrong.
RC_GTEST_PROP(RowPlan, OneWarpEqualsALoop, ()) {
  check(drawn_trial(*rc::gen::inRange<std::uint64_t>(1, 1'000'000),
                    *rc::gen::inRange<std::size_t>(kRankedIds + 1, 900)));
}

// Would catch: a rank that counts a later pair, a start or block that a full expert opens twice, a sum that
// runs into its neighbour in the word, ids of the tail's padding counted as an expert.
RC_GTEST_PROP(RowPlan, RankedIdsEqualALoop, ()) {
  check(drawn_trial(*rc::gen::inRange<std::uint64_t>(1, 1'000'000),
                    *rc::gen::inRange<std::size_t>(1, kRankedIds + 1)));
}

// Would catch: a seam between the shares of the eight warps that scan many ids.
TEST(RowPlan, EightWarpsEqualALoop) {
  for (std::size_t pairs : {2049u, 4096u, 5003u}) {
    const Trial t = drawn_trial(pairs, pairs);
    const auto machine = emulated_machine();
    const Placed got = placed_by_kernel(*machine, t);
    const Placed want = placed_by_loop(t, got.pair_of_row.size());
    EXPECT_EQ(got.row_of_pair, want.row_of_pair);
    EXPECT_EQ(got.pair_of_row, want.pair_of_row);
    EXPECT_EQ(got.row_start, want.row_start);
    EXPECT_EQ(got.block_start, want.block_start);
    EXPECT_TRUE(machine->take_reports().empty());
  }
}

// Would catch: a departure from vLLM's contract in order, padding or capacity. The example is worked by hand:
// experts 4, block 4, ids [[2,3,0],[1,2,3],[0,2,1]] -> counts 2, 2, 3, 2.
TEST(Align, WorkedExample) {
  Case c;
  c.problem.op = Op::align;
  c.problem.shape.tokens = 3;
  c.problem.shape.top_k = 3;
  c.problem.shape.experts = 4;
  c.choice.tile.block_m = 4;
  TensorSet inputs;
  Tensor ids("topk_ids", DType::i32, {3, 3});
  const std::int32_t values[] = {2, 3, 0, 1, 2, 3, 0, 2, 1};
  std::memcpy(ids.data(), values, sizeof values);
  inputs.add(std::move(ids));
  const auto machine = emulated_machine();
  Pipeline pipeline = build_align(*machine, c, inputs);
  for (const Stage& stage : pipeline.stages) stage.launch({}, false);
  machine->synchronize();
  TensorSet out;
  pipeline.collect(out);
  const auto as_vector = [&](const char* name) {
    const auto span = std::as_const(out.at(name)).as<std::int32_t>();
    return std::vector<std::int32_t>(span.begin(), span.end());
  };
  EXPECT_EQ(as_vector("sorted_token_ids"), (std::vector<std::int32_t>{2, 6, 9, 9, 3, 8, 9, 9, 0, 4, 7, 9,
                                                                      1, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(as_vector("expert_ids"), (std::vector<std::int32_t>{0, 1, 2, 3, -1, -1}));
  EXPECT_EQ(as_vector("num_tokens_post_padded"), (std::vector<std::int32_t>{16}));
  EXPECT_TRUE(machine->take_reports().empty());
}

}  // namespace
}  // namespace moe::device
