#include "harness/properties/output_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fixtures/problem/number_formats.hpp"
#include "reference/operands.hpp"

namespace moe::harness {
namespace {

/// In the order of a layer.
constexpr const char* kOrder[] = {"topk_ids",  "topk_weights", "x_codes", "x_scale", "gemm1",
                                  "act_codes", "act_scale",    "gemm2",   "out",     "c"};

bool is_pair_tensor(std::string_view name) {
  return name == "gemm1" || name == "act_codes" || name == "act_scale" || name == "gemm2" || name == "c";
}
bool is_routing(std::string_view name) { return name.starts_with("topk_"); }

/// Which rows of pair tensors count: those of this rank's experts.
std::vector<std::uint8_t> counted_pairs(const Subject& s, const TensorSet& inputs) {
  std::vector<std::uint8_t> counted;
  const Tensor* ids = inputs.find("topk_ids");
  if (s.op() == Op::moe_layer && ids != nullptr) {
    for (const std::int32_t id : ids->as<std::int32_t>()) counted.push_back(s.is_local(id));
  } else if (s.op() == Op::grouped_gemm) {
    for (const OwnedRow& r : owned_rows(s.problem(), inputs)) {
      if (std::size_t(r.row) >= counted.size()) counted.resize(std::size_t(r.row) + 1, 0);
      counted[std::size_t(r.row)] = 1;
    }
  }
  return counted;  // empty: all
}

struct Values {
  const Tensor& tensor;
  std::int64_t rows, columns;
};

Values values_of(const Tensor& t) {
  const std::int64_t columns = t.name() == "c"         ? (t.shape().empty() ? 0 : t.shape().back())
                               : t.shape().size() == 1 ? 1
                                                       : t.size() / std::max<std::int64_t>(t.dim(0), 1);
  return {t, columns == 0 ? 0 : t.size() / columns, columns};
}

bool same_bytes(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  const std::size_t unit = size_of(a.dtype());
  return std::memcmp(a.data() + std::size_t(i) * unit, b.data() + std::size_t(j) * unit, unit) == 0;
}

bool is_floating(DType t) { return t == DType::bf16 || t == DType::f32 || t == DType::e4m3; }

/// Elements whose own roundings lie in the subnormals, or that overflow, do not grow by a power of two.
bool is_representable(double value) {
  return value == 0 || (std::fabs(value) > 1e-25 && std::fabs(value) < 1e30);
}

struct Element {
  bool equal = false, asked = true, zero = true;
};

Element compare(const Tensor& got, std::int64_t i, const Tensor& want, std::int64_t j, double times,
                bool any_zero) {
  Element e;
  if (!is_floating(got.dtype())) {
    e.equal = same_bytes(got, i, want, j);
    e.zero = false;
    return e;
  }
  const double due = value_at(want, j) * times, is = value_at(got, i);
  e.zero = due == 0 && is == 0;
  if (times != 1) {
    e.asked = is_representable(due) && is_representable(is) && std::isfinite(due);
    e.equal = is == due;
    return e;
  }
  e.equal = same_bytes(got, i, want, j) || (std::isnan(due) && std::isnan(is)) || (any_zero && e.zero);
  return e;
}

std::string place(const Tensor& got, std::int64_t row, std::int64_t column, double is, double due) {
  return fmt::format("{} row {} column {} is {:.9g}, {:.9g} is due", got.name(), row, column, is, due);
}

std::string tensor_difference(Subject& s, const Tensor& got_tensor, const Tensor& want_tensor,
                              const RowMap& map, const std::vector<std::uint8_t>& counted, double times,
                              bool any_zero) {
  const Values got = values_of(got_tensor), want = values_of(want_tensor);
  if (got.columns != want.columns)
    throw NotApplicable(fmt::format("{} has other columns", got_tensor.name()));
  std::int64_t seen = 0, nonzero = 0;
  std::string found;
  // one scale for all rows
  const bool whole =
      got.rows == 1 && map.size() != 1 && std::string_view(got_tensor.name()).ends_with("_scale");
  const auto rows = whole ? 1 : std::int64_t(map.size());
  for (std::int64_t row = 0; row < std::min(rows, got.rows) && found.empty(); ++row) {
    const std::int64_t other = whole ? 0 : map[std::size_t(row)];
    if (other < 0 || other >= want.rows) continue;
    if (!counted.empty() && (std::size_t(row) >= counted.size() || !counted[std::size_t(row)])) continue;
    for (std::int64_t c = 0; c < got.columns; ++c) {
      const std::int64_t i = row * got.columns + c, j = other * got.columns + c;
      const Element e = compare(got.tensor, i, want.tensor, j, times, any_zero);
      if (!e.asked) continue;
      ++seen, nonzero += !e.zero;
      if (e.equal) continue;
      found = place(got_tensor, row, c, value_at(got.tensor, i), value_at(want.tensor, j) * times);
      break;
    }
  }
  s.note(seen, nonzero);
  return found;
}

bool is_wanted(const Subject& s, const Rule& rule, std::string_view name) {
  if (is_routing(name) && s.op() != Op::topk) return false;  // an input here
  return rule.tensors.empty() ||
         std::find(rule.tensors.begin(), rule.tensors.end(), name) != rule.tensors.end();
}

}  // namespace

double value_at(const Tensor& t, std::int64_t i) {
  const auto at = std::size_t(i);
  switch (t.dtype()) {
    case DType::bf16:
      return decode_bf16(t.as<std::uint16_t>()[at]);
    case DType::f32:
      return t.as<float>()[at];
    case DType::e4m3:
      return decode_e4m3(t.as<std::uint8_t>()[at]);
    case DType::i32:
      return t.as<std::int32_t>()[at];
    default:
      return t.as<std::uint8_t>()[at];
  }
}

std::vector<OwnedRow> owned_rows(const Problem& problem, const TensorSet& inputs) {
  std::vector<OwnedRow> rows;
  for (const reference::GemmRow& r : reference::contract_gemm(problem, inputs).rows)
    rows.push_back({r.out, r.act, r.expert});
  return rows;
}

std::string difference(Subject& s, const TensorSet& got_inputs, const TensorSet& got, const TensorSet& want,
                       const Rule& rule) {
  const std::vector<std::uint8_t> counted = counted_pairs(s, got_inputs);
  for (const char* name : kOrder) {
    const Tensor *a = got.find(name), *b = want.find(name);
    if (a == nullptr || b == nullptr || !is_wanted(s, rule, name)) continue;
    const bool pairs = is_pair_tensor(name);
    const RowMap& asked = pairs ? rule.pairs : rule.tokens;
    const RowMap map = asked.empty() ? identity_map(values_of(*a).rows) : asked;
    const auto times = rule.times.find(name);
    std::string found = tensor_difference(s, *a, *b, map, pairs ? counted : std::vector<std::uint8_t>{},
                                          times == rule.times.end() ? 1 : times->second, rule.any_zero);
    if (!found.empty()) return found;
  }
  return {};
}

std::string nonzero_row(Subject& s, const TensorSet& got, std::string_view tensor,
                        const std::vector<std::int64_t>& rows) {
  const Tensor* t = got.find(tensor);
  if (t == nullptr) return {};
  const Values v = values_of(*t);
  for (const std::int64_t row : rows) {
    s.note(v.columns, v.columns);  // zeros are what is asked for
    for (std::int64_t c = 0; c < v.columns; ++c) {
      const double is = value_at(*t, row * v.columns + c);
      if (is != 0) return place(*t, row, c, is, 0);
    }
  }
  return {};
}

std::string not_finite(Subject& s, const TensorSet& got_inputs, const TensorSet& got) {
  const std::vector<std::uint8_t> counted = counted_pairs(s, got_inputs);
  for (const Tensor& t : got.all()) {
    if (!is_floating(t.dtype()) || (is_routing(t.name()) && s.op() != Op::topk)) continue;
    const Values v = values_of(t);
    const bool whole = is_pair_tensor(t.name()) && v.rows != 1;
    for (std::int64_t row = 0; row < v.rows; ++row) {
      if (whole && !counted.empty() && (std::size_t(row) >= counted.size() || !counted[std::size_t(row)]))
        continue;
      s.note(v.columns, v.columns);
      for (std::int64_t c = 0; c < v.columns; ++c)
        if (const double is = value_at(t, row * v.columns + c); !std::isfinite(is))
          return fmt::format("{} row {} column {} is {}", t.name(), row, c, is);
    }
  }
  return {};
}

std::string outside(Subject& s, const char* tensor, std::int64_t row, std::int64_t column, const Bounded& b) {
  s.note(1, b.got != 0 || b.want != 0);
  if (std::fabs(b.got - b.want) <= b.bound || (std::isnan(b.got) && std::isnan(b.want))) return {};
  return fmt::format("{} row {} column {} is {:.9g}, {:.9g} within {:.3g} is due", tensor, row, column, b.got,
                     b.want, b.bound);
}

}  // namespace moe::harness
