#include "reference/sparse_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "fixtures/problem/number_formats.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {
namespace {

/// A code as the tensor core sees it: value = significand * 2^last, aligned at 2^exponent.
struct Code {
  double value = 0;
  int exponent = 0, last = 0;  // last: place of the lowest bit that is set
};

Code code_of(std::uint8_t code) {
  const int field = (code >> 3) & 15, exponent = std::max(field, 1) - 7;
  const unsigned significand = (code & 7u) | (field > 0 ? 8u : 0u);
  return {double(decode_e4m3(code)), exponent, exponent - 3 + std::countr_zero(significand | 8u)};
}

struct Entry {
  std::int64_t column = 0, k = 0;
  Code code;
  double scale = 0;
  double value() const { return code.value * scale; }
};

/// Codes of an expert's weights that are not zero, by column, then by k.
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
        entries.push_back({column, k, code_of(row[k]), double(w.scale(expert, column, k))});
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

/// Fraction bits that every accumulator keeps below its largest exponent.
constexpr int kKeptBits = 13;

/// What products of one chain can lose in any accumulator: nothing where all are multiples of its last bit.
double loss_of_codes(const GroupedGemm& gemm, std::int64_t row, std::span<const Entry> chain) {
  int products = 0, exponent = -100, last = 100;
  double size = 0;
  for (const Entry& e : chain) {
    const Code a = code_of(gemm.a.codes[row * gemm.a.k + e.k]);
    if (a.value == 0) continue;
    ++products;
    exponent = std::max(exponent, a.exponent + e.code.exponent);
    last = std::min(last, a.last + e.code.last);
    size += std::fabs(a.value * e.code.value);
  }
  if (products < 2 || !std::isfinite(size)) return 0;
  exponent = std::max(exponent, std::ilogb(size));
  if (last >= exponent - kKeptBits) return 0;
  const double scale = double(gemm.a.scale(row, chain[0].k)) * chain[0].scale;
  return 3 * (products - 1) * std::ldexp(std::fabs(scale), exponent - kKeptBits) * (1 + 0x1p-10);
}

/// The same where only intervals of the activations are known.
double loss_of_intervals(const RealActivations& real, std::int64_t row, std::span<const Entry> chain) {
  double size = 0;
  for (const Entry& e : chain) {
    const std::size_t at = std::size_t(row * real.k + e.k);
    const double radius = real.radius.empty() ? 0 : real.radius[at],
                 reach = std::fabs(real.center[at]) + radius;
    if (reach == 0) continue;
    const double aligned =
        real.aligned.empty() ? 0 : real.aligned[std::size_t(row * ((real.k + 127) / 128) + e.k / 128)];
    size += std::fmax(reach, aligned) * std::fmax(std::fabs(e.code.value), 0x1p-6) * std::fabs(e.scale);
  }
  return 3 * double(chain.size() - 1) * size * 0x1p-13 * (1 + 0x1p-10);
}

/// Losses of one element's products (`all`, of one column), chain by chain.
double accumulation_loss(const GroupedGemm& gemm, const RealActivations* real, std::int64_t row,
                         std::span<const Entry> all) {
  double loss = 0;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    const bool blocks = gemm.w.kind == QuantKind::block128;
    while (end < all.size() && (!blocks || all[end].k / kScaleBlock == all[first].k / kScaleBlock)) ++end;
    const auto chain = all.subspan(first, end - first);
    if (chain.size() > 1)
      loss += real != nullptr ? loss_of_intervals(*real, row, chain) : loss_of_codes(gemm, row, chain);
  }
  return loss;
}

void sum_row(const GroupedGemm& gemm, const RealActivations* real, const GemmRow& row,
             const std::vector<Entry>& entries, double* value, double* bound) {
  for (std::size_t first = 0, end = 0; first < entries.size(); first = end) {
    const std::int64_t column = entries[first].column;
    for (; end < entries.size() && entries[end].column == column; ++end) {
      const Factor a = activation(gemm, real, row.act, entries[end].k);
      const double w = entries[end].value();
      value[column] += a.value * w;
      bound[column] += (std::fabs(a.value) * kFactorError + a.radius * (1 + kFactorError)) * std::fabs(w);
    }
    if (end - first > 1)
      bound[column] += accumulation_loss(gemm, real, row.act, std::span(entries).subspan(first, end - first));
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
