#include "harness/kill_sums.hpp"

#include <algorithm>

namespace moe::harness {
namespace {

constexpr double kFar = 2;

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? T{} : values[values.size() / 2];
}

KillSum sum_of(const std::string& kind, const std::vector<KillRow>& rows) {
  KillSum sum{.kind = kind};
  std::vector<int> cases, runs;
  std::vector<double> distances;
  for (const KillRow& row : rows) {
    if (kind != "all" && row.kind != kind) continue;
    if (row.declared) sum.faults += 1, sum.not_tried += !row.why_not.empty();
    sum.seeds[!row.declared] += row.seeds, sum.killed[!row.declared] += row.killed;
    if (row.killed > 0) cases.push_back(row.cases);
    if (row.shrunk.empty()) continue;
    runs.push_back(row.runs);
    if (row.distance > 0) distances.push_back(row.distance);
    sum.far += row.distance > kFar;
  }
  sum.cases = median(std::move(cases)), sum.runs = median(std::move(runs));
  sum.distance = median(std::move(distances));
  return sum;
}

}  // namespace

std::vector<KillSum> kill_sums(const std::vector<KillRow>& rows) {
  std::vector<KillSum> sums;
  for (const KillRow& row : rows)
    if (std::none_of(sums.begin(), sums.end(), [&](const KillSum& s) { return s.kind == row.kind; }))
      sums.push_back(sum_of(row.kind, rows));
  if (!sums.empty()) sums.push_back(sum_of("all", rows));
  return sums;
}

}  // namespace moe::harness
