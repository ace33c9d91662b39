#include "harness/judged_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace moe::harness {
namespace {

std::vector<JudgedRow> random_rows() {
  const int experts = *rc::gen::inRange(1, 12);
  std::vector<JudgedRow> rows;
  for (int e = 0; e < experts; ++e) {
    const auto n = *rc::gen::inRange<std::int64_t>(0, 50);
    for (std::int64_t i = 0; i < n; ++i) rows.push_back({std::int64_t(rows.size()), e, i});
  }
  return rows;
}

// Would catch a sample that leaves out the rows where tiles begin and end, or that changes from run to run.
RC_GTEST_PROP(JudgedRows, TheSampleHoldsTheEdges, ()) {
  const auto rows = random_rows();
  const int block_m = *rc::gen::element(8, 16, 64);
  const auto most = *rc::gen::inRange<std::int64_t>(0, 400);
  const auto sample = sample_rows(rows, block_m, most, 7);
  RC_ASSERT(sample == sample_rows(rows, block_m, most, 7));
  std::set<std::int64_t> kept;
  for (const JudgedRow& r : sample) kept.insert(r.row);
  RC_ASSERT(kept.size() == sample.size());
  std::size_t edges = 0, tile_edges = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool first = rows[i].rank == 0;
    const bool last = i + 1 == rows.size() || rows[i + 1].expert != rows[i].expert;
    edges += first || last;
    tile_edges += first || last || rows[i].rank % block_m == 0 || rows[i].rank % block_m == block_m - 1;
    if (first || last) RC_ASSERT(kept.count(rows[i].row) == 1u);
  }
  RC_ASSERT(std::int64_t(sample.size()) <= std::max<std::int64_t>(most, std::int64_t(edges)));
  if (most >= std::int64_t(tile_edges)) {
    for (const JudgedRow& r : rows)
      if (r.rank % block_m == 0) RC_ASSERT(kept.count(r.row) == 1u);
  }
}

// Would catch a pair that is counted for the wrong rank, or a padding id taken for an expert.
TEST(JudgedRows, PairsOfThisRankOnly) {
  Routing routing{3, 2, {0, 3, 2, -1, 3, 2}, {}};
  EXPECT_EQ(expert_rows(routing, 2, 2), (std::vector<JudgedRow>{{2, 2, 0}, {5, 2, 1}, {1, 3, 0}, {4, 3, 1}}));
}

}  // namespace
}  // namespace moe::harness
