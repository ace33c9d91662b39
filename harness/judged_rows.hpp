// Which rows are judged when the budget does not reach for all? First those where kernels fail: the first and
// last row of each expert, then of each tile, then a seeded sample of the rest.
#pragma once
#include <cstdint>
#include <vector>

#include "fixtures/problem/routing.hpp"

namespace moe::harness {

/// One row of a stage: where it lies, whose it is, and its number among that expert's rows (-1 = no
/// expert's).
struct JudgedRow {
  std::int64_t row = 0;
  int expert = -1;
  std::int64_t rank = -1;
  bool operator==(const JudgedRow&) const = default;
};

/// The pair rows of the local experts [first, first + count) in order of expert, then pair.
std::vector<JudgedRow> expert_rows(const Routing& routing, int first, int count);
/// Rows 0 .. n-1 that belong to no expert.
std::vector<JudgedRow> plain_rows(std::int64_t n);

/// At most `most` of `rows`, ascending; but the first and last row of every expert are always among them.
/// `block_m` is the tile's token count. The same arguments give the same rows.
std::vector<JudgedRow> sample_rows(const std::vector<JudgedRow>& rows, int block_m, std::int64_t most,
                                   std::uint64_t seed);

}  // namespace moe::harness
