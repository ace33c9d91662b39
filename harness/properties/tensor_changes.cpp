#include "harness/properties/tensor_changes.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

/// Copies only groups that hold bytes: the others stay address space.
Tensor deep_copy(const Tensor& t) {
  Tensor copy(t.name(), t.dtype(), t.shape());
  copy.filled_groups = t.filled_groups;
  if (t.empty()) return copy;
  if (t.filled_groups.empty()) {
    std::memcpy(copy.data(), t.data(), t.bytes());
    return copy;
  }
  const std::size_t group = t.bytes() / t.filled_groups.size();
  for (std::size_t g = 0; g < t.filled_groups.size(); ++g)
    if (t.filled_groups[g]) std::memcpy(copy.data() + g * group, t.data() + g * group, group);
  return copy;
}

bool is_filled(const Tensor& t, std::int64_t row) {
  return t.filled_groups.empty() || t.filled_groups[std::size_t(row)] != 0;
}

constexpr const char* kTokenTensors[] = {"o",        "positions",   "hidden", "router_logits",
                                         "topk_ids", "topk_weights"};
constexpr const char* kPairTensors[] = {"gemm1", "gemm2"};

}  // namespace

RowMap identity_map(std::int64_t n) {
  RowMap rows(std::size_t(n), 0);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

RowMap shuffled(std::int64_t n, std::uint64_t seed) {
  RowMap rows = identity_map(n);
  std::uint64_t state = seed + 0x9E3779B97F4A7C15u;
  for (std::int64_t i = n - 1; i > 0; --i) {
    state = (state ^ (state >> 29)) * 0xBF58476D1CE4E5B9u + 1;
    std::swap(rows[std::size_t(i)], rows[std::size_t(state >> 33) % std::size_t(i)]);  // Sattolo: one cycle
  }
  return rows;
}

RowMap pairs_of(const RowMap& tokens, int top_k) {
  RowMap pairs;
  for (const std::int64_t t : tokens)
    for (int j = 0; j < top_k; ++j) pairs.push_back(t < 0 ? -1 : t * top_k + j);
  return pairs;
}

Tensor& own(TensorSet& set, std::string_view name) {
  Tensor& t = set.at(name);
  t = deep_copy(t);
  return t;
}

void replace(TensorSet& set, Tensor tensor) {
  if (Tensor* old = set.find(tensor.name()); old != nullptr)
    *old = std::move(tensor);
  else
    set.add(std::move(tensor));
}

void remove(TensorSet& set, std::string_view name) {
  std::erase_if(set.all(), [&](const Tensor& t) { return t.name() == name; });
}

std::size_t row_bytes(const Tensor& t) {
  if (t.shape().empty() || t.dim(0) == 0) return 0;
  return t.bytes() / std::size_t(t.dim(0));
}

void copy_row(Tensor& t, std::int64_t from, std::int64_t to) {
  const std::size_t bytes = row_bytes(t);
  if (from != to)
    std::memcpy(t.data() + std::size_t(to) * bytes, t.data() + std::size_t(from) * bytes, bytes);
}

void fill_row(Tensor& t, std::int64_t row, int byte) {
  std::memset(t.data() + std::size_t(row) * row_bytes(t), byte, row_bytes(t));
}

void take_rows(TensorSet& set, std::string_view name, const RowMap& rows) {
  const Tensor old = set.at(name);
  std::vector<std::int64_t> shape = old.shape();
  shape.at(0) = std::int64_t(rows.size());
  Tensor taken(old.name(), old.dtype(), shape);
  const std::size_t bytes = row_bytes(old);
  if (!old.filled_groups.empty()) taken.filled_groups.assign(rows.size(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || !is_filled(old, rows[i])) continue;
    std::memcpy(taken.data() + i * bytes, old.data() + std::size_t(rows[i]) * bytes, bytes);
    if (!old.filled_groups.empty()) taken.filled_groups[i] = 1;
  }
  set.at(name) = std::move(taken);
}

void take_tokens(const Problem& p, TensorSet& set, const RowMap& tokens) {
  for (const char* name : kTokenTensors)
    if (set.has(name)) take_rows(set, name, tokens);
  for (const char* name : kPairTensors)
    if (set.has(name)) take_rows(set, name, pairs_of(tokens, p.shape.top_k));
}

void scale_values(Tensor& t, std::int64_t first, std::int64_t count, float factor) {
  for (float& value : t.as<float>().subspan(std::size_t(first), std::size_t(count))) value *= factor;
}

void scale_all(TensorSet& set, std::string_view name, float factor) {
  Tensor& t = own(set, name);
  scale_values(t, 0, t.size(), factor);
}

void scale_bf16(Tensor& t, float factor) {
  for (std::uint16_t& code : t.as<std::uint16_t>()) code = encode_bf16(decode_bf16(code) * factor);
}

void fill_expert(TensorSet& set, std::string_view weights, std::int64_t expert, int code, float scale) {
  Tensor& codes = own(set, weights);
  fill_row(codes, expert, code);
  if (!codes.filled_groups.empty()) codes.filled_groups[std::size_t(expert)] = 1;
  Tensor& scales = own(set, std::string(weights) + "_scale");
  const std::int64_t each = scales.size() / scales.dim(0);
  const auto values = scales.as<float>().subspan(std::size_t(expert * each), std::size_t(each));
  std::fill(values.begin(), values.end(), scale);
  if (!scales.filled_groups.empty()) scales.filled_groups[std::size_t(expert)] = 1;
}

void take_columns(TensorSet& set, std::string_view name, const RowMap& columns) {
  const Tensor old = set.at(name);
  std::vector<std::int64_t> shape = old.shape();
  const std::int64_t width = shape.back(), rows = width == 0 ? 0 : old.size() / width;
  shape.back() = std::int64_t(columns.size());
  Tensor taken(old.name(), old.dtype(), shape);
  taken.filled_groups = old.filled_groups;
  const std::size_t unit = size_of(old.dtype());
  const std::int64_t per_group =
      old.filled_groups.empty() ? rows : rows / std::int64_t(old.filled_groups.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!old.filled_groups.empty() && !old.filled_groups[std::size_t(r / per_group)]) continue;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c] >= 0)
        std::memcpy(taken.data() + (std::size_t(r) * columns.size() + c) * unit,
                    old.data() + std::size_t(r * width + columns[c]) * unit, unit);
  }
  set.at(name) = std::move(taken);
}

void take_middle(TensorSet& set, std::string_view name, const RowMap& rows) {
  const Tensor old = set.at(name);
  std::vector<std::int64_t> shape = old.shape();
  const std::int64_t experts = shape.at(0), before = shape.at(1);
  shape[1] = std::int64_t(rows.size());
  Tensor taken(old.name(), old.dtype(), shape);
  taken.filled_groups = old.filled_groups;
  const std::size_t bytes = old.empty() ? 0 : old.bytes() / std::size_t(experts * before);
  for (std::int64_t e = 0; e < experts; ++e) {
    if (!is_filled(old, e)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] >= 0)
        std::memcpy(taken.data() + (std::size_t(e) * rows.size() + i) * bytes,
                    old.data() + std::size_t(e * before + rows[i]) * bytes, bytes);
  }
  set.at(name) = std::move(taken);
}

void take_activation_rows(const Problem& p, TensorSet& set, const RowMap& rows) {
  if (rows.empty()) return;
  const auto flat = [&](const char* name, std::int64_t first_dimensions) {  // [L, max_m, K] as [L * max_m, K]
    Tensor& t = own(set, name);
    const Tensor old = deep_copy(t);
    const std::size_t bytes = old.bytes() / std::size_t(first_dimensions);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(t.data() + i * bytes, old.data() + std::size_t(rows[i]) * bytes, bytes);
  };
  const auto count = std::int64_t(rows.size());
  flat("a_codes", count);
  if (p.quant.tensor()) return;
  const bool mn_major = p.quant.block() && p.quant.scale_layout == ScaleLayout::mn_major;
  if (!mn_major) return flat("a_scale", count);
  RowMap columns = identity_map(set.at("a_scale").shape().back());
  std::copy(rows.begin(), rows.end(), columns.begin());
  take_columns(set, "a_scale", columns);
}

}  // namespace moe::harness
