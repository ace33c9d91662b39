#include "reference/sparse_sum.hpp"

#include <cmath>
#include <cstring>
#include <map>

#include "fixtures/problem/number_formats.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {
namespace {

struct Entry {
  std::int64_t column = 0, k = 0;
  double value = 0;  // with its scale
};

/// Codes of an expert's weights that are not zero, by column.
std::vector<Entry> entries_of(const WeightView& w, std::int64_t expert) {
  std::vector<Entry> entries;
  for (std::int64_t column = 0; column < w.n; ++column) {
    const std::uint8_t* row = w.row(expert, column);
    for (std::int64_t k = 0; k < w.k; ++k) {
      std::uint64_t eight = 0;
      if (k + 8 <= w.k && (std::memcpy(&eight, row + k, 8), eight == 0)) {
        k += 7;
        continue;
      }
      if ((row[k] & 0x7Fu) != 0)
        entries.push_back({column, k, double(decode_e4m3(row[k])) * double(w.scale(expert, column, k))});
    }
  }
  return entries;
}

struct Factor {
  double value = 0, radius = 0;
};

Factor activation(const GroupedGemm& gemm, const RealActivations* real, std::int64_t row, std::int64_t k) {
  if (real == nullptr)
    return {double(decode_e4m3(gemm.a.codes[row * gemm.a.k + k])) * double(gemm.a.scale(row, k)), 0};
  const std::size_t at = std::size_t(row * real->k + k);
  return {real->center[at], real->radius.empty() ? 0 : real->radius[at]};
}

void sum_row(const GroupedGemm& gemm, const RealActivations* real, const GemmRow& row,
             const std::vector<Entry>& entries, double* value, double* bound) {
  for (const Entry& e : entries) {
    const Factor a = activation(gemm, real, row.act, e.k);
    value[e.column] += a.value * e.value;
    bound[e.column] +=
        (std::fabs(a.value) * kFactorError + a.radius * (1 + kFactorError)) * std::fabs(e.value);
  }
  const double weight = gemm.row_weight ? gemm.row_weight[row.out] : 1.0;
  for (std::int64_t n = 0; n < gemm.w.n; ++n) {
    const double bias = gemm.bias ? gemm.bias[row.expert * gemm.w.n + n] : 0.0;
    value[n] = (value[n] + bias) * weight;
    bound[n] = (bound[n] + kFactorError * std::fabs(bias)) * std::fabs(weight);
  }
}

}  // namespace

GroupedSum sparse_sum(const GroupedGemm& gemm, std::span<const GemmRow> rows, const RealActivations* real,
                      int threads) {
  GroupedSum sum;
  sum.rows = std::int64_t(rows.size()), sum.columns = gemm.w.n;
  sum.value.resize(rows.size() * std::size_t(gemm.w.n));
  sum.bound.resize(sum.value.size());
  std::map<std::int32_t, std::vector<Entry>> entries;
  std::vector<std::int32_t> experts;
  for (const GemmRow& row : rows)
    if (row.expert >= 0 && entries.try_emplace(row.expert).second) experts.push_back(row.expert);
  parallel_for(std::int64_t(experts.size()), threads, [&](std::int64_t i) {
    entries.at(experts[std::size_t(i)]) = entries_of(gemm.w, experts[std::size_t(i)]);
  });
  parallel_for(sum.rows, threads, [&](std::int64_t i) {
    const GemmRow& row = rows[std::size_t(i)];
    if (row.expert < 0) return;
    sum_row(gemm, real, row, entries.at(row.expert), &sum.value[std::size_t(i * gemm.w.n)],
            &sum.bound[std::size_t(i * gemm.w.n)]);
  });
  return sum;
}

}  // namespace moe::reference
