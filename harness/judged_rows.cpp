#include "harness/judged_rows.hpp"

#include <algorithm>
#include <map>

#include "fixtures/problem/philox.hpp"

namespace moe::harness {
namespace {

constexpr std::uint32_t kSampleStream = 0x73616D70u;  // "samp": its own Philox stream

/// 0 = first or last of its expert, 1 = first or last of its tile, 2 = any other.
int urgency(const JudgedRow& r, std::int64_t rows_of_expert, int block_m) {
  if (r.expert < 0) return 2;
  if (r.rank == 0 || r.rank == rows_of_expert - 1) return 0;
  const bool edge = block_m > 0 && (r.rank % block_m == 0 || r.rank % block_m == block_m - 1);
  return edge ? 1 : 2;
}

}  // namespace

std::vector<JudgedRow> expert_rows(const Routing& routing, int first, int count) {
  std::vector<std::vector<std::int64_t>> rows(std::size_t(count), std::vector<std::int64_t>{});
  for (std::size_t pair = 0; pair < routing.ids.size(); ++pair) {
    const int local = routing.ids[pair] - first;
    if (routing.ids[pair] >= 0 && local >= 0 && local < count)
      rows[std::size_t(local)].push_back(std::int64_t(pair));
  }
  std::vector<JudgedRow> out;
  for (int e = 0; e < count; ++e) {
    const auto& own = rows[std::size_t(e)];
    for (std::size_t i = 0; i < own.size(); ++i) out.push_back({own[i], first + e, std::int64_t(i)});
  }
  return out;
}

std::vector<JudgedRow> plain_rows(std::int64_t n) {
  std::vector<JudgedRow> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back({i, -1, -1});
  return out;
}

std::vector<JudgedRow> sample_rows(const std::vector<JudgedRow>& rows, int block_m, std::int64_t most,
                                   std::uint64_t seed) {
  if (std::int64_t(rows.size()) <= most) return rows;
  std::map<int, std::int64_t> per_expert;
  for (const JudgedRow& r : rows) ++per_expert[r.expert];
  struct Ranked {
    int urgency;
    std::uint32_t lot;
    std::size_t index;
  };
  std::vector<Ranked> order;
  for (std::size_t i = 0; i < rows.size(); ++i)
    order.push_back(
        {urgency(rows[i], per_expert[rows[i].expert], block_m), random_block(seed, kSampleStream, i).x, i});
  std::sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) {
    return a.urgency != b.urgency ? a.urgency < b.urgency
           : a.lot != b.lot       ? a.lot < b.lot
                                  : a.index < b.index;
  });
  std::vector<std::size_t> chosen;
  for (const Ranked& r : order)
    if (r.urgency == 0 || std::int64_t(chosen.size()) < most) chosen.push_back(r.index);
  std::sort(chosen.begin(), chosen.end());
  std::vector<JudgedRow> out;
  for (std::size_t i : chosen) out.push_back(rows[i]);
  return out;
}

}  // namespace moe::harness
