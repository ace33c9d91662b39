#include "harness/fault_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "fixtures/problem/poison.hpp"

namespace moe::harness {
namespace {

/// What an id holds that no kernel wrote.
constexpr auto kUnwritten = std::int32_t(0x01010101u * poison_of(DType::i32));

using Elements = std::vector<WrongElement>;

template <class Predicate>
bool all(const Elements& e, Predicate p) {
  return std::all_of(e.begin(), e.end(), p);
}

/// Whether each element has one value that is due: bits, or intervals of no width.
bool one_value_is_due(const StagePair& pair) {
  return pair.to_the_bit() ||
         (!pair.want.empty() && pair.want.data() == pair.low.data() && pair.want.data() == pair.high.data());
}

/// A run of elements as bytes that are equal where the values are; zeros have no sign.
std::string key_of(std::vector<float> values) {
  for (float& v : values) v = v == 0 ? 0.0f : v;
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// `count` elements of a tensor from element `from` on.
std::string key_of(const Tensor& t, std::int64_t from, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = from; i < from + count; ++i)
    values.push_back(float(value_of(t.dtype(), t.data(), i)));
  return key_of(std::move(values));
}

std::string due_key(const StagePair& pair, std::size_t judged, std::int64_t column, std::int64_t count) {
  const std::int64_t from = std::int64_t(judged) * pair.columns + column;
  if (pair.to_the_bit()) return key_of(*pair.bits, from, count);
  const auto due = pair.want.subspan(std::size_t(from), std::size_t(count));
  return key_of(std::vector<float>(due.begin(), due.end()));
}

/// "rows of another expert" where every wrong row holds what another judged row should hold.
std::string exchanged_rows(const StagePair& pair, const Elements& wrong) {
  if (pair.rows.size() < 2 || !one_value_is_due(pair)) return "";
  std::map<std::size_t, std::size_t> rows;  // by hash: a copy of every row would be a second output
  const std::hash<std::string> hash;
  for (std::size_t i = 0; i < pair.rows.size(); ++i) rows.emplace(hash(due_key(pair, i, 0, pair.columns)), i);
  bool other_expert = false;
  std::size_t last = pair.rows.size();
  for (const WrongElement& e : wrong) {
    if (e.judged == last) continue;
    last = e.judged;
    const auto found = rows.find(hash(key_of(*pair.got, pair.rows[last].row * pair.columns, pair.columns)));
    if (found == rows.end()) return "";
    other_expert = other_expert || pair.rows[found->second].expert != pair.rows[last].expert;
  }
  return other_expert ? "rows of another expert" : "rows of another token";
}

/// Where every wrong column block holds what another one of its row should hold.
std::string exchanged_blocks(const StagePair& pair, const Elements& wrong) {
  const std::int64_t width = pair.block_columns, blocks = pair.columns / width;
  if (width < 8 || blocks < 2 || !one_value_is_due(pair)) return "";
  std::set<std::pair<std::size_t, std::int64_t>> seen;
  for (const WrongElement& e : wrong) {
    const std::int64_t block = e.column / width;
    if (block >= blocks) return "";  // a tail
    if (!seen.emplace(e.judged, block).second) continue;
    const std::string got = key_of(*pair.got, pair.rows[e.judged].row * pair.columns + block * width, width);
    bool found = false;
    for (std::int64_t other = 0; other < blocks && !found; ++other)
      found = other != block && due_key(pair, e.judged, other * width, width) == got;
    if (!found) return "";
  }
  return fmt::format("columns of another {}-column block", width);
}

/// The factor that every wrong element is off by, 0 where there is no common one.
double common_factor(const Elements& wrong) {
  double factor = 0;
  for (const WrongElement& e : wrong) {
    if (e.want == 0 || !std::isfinite(e.got) || !std::isfinite(e.want)) return 0;
    const double ratio = e.got / e.want;
    if (factor == 0) factor = ratio;
    if (std::abs(ratio - factor) > 0.01 * std::abs(factor)) return 0;  // a bf16 ulp is 0.4 % to 0.8 %
  }
  return wrong.size() >= 8 && std::abs(factor - 1) > 0.02 ? factor : 0;
}

std::string what(const StagePair& pair, const Elements& wrong) {
  if (all(wrong, [](const auto& e) { return e.poison; })) return "values that were never written";
  if (all(wrong, [](const auto& e) { return std::isnan(e.got); })) return "NaN";
  if (all(wrong, [](const auto& e) { return e.got == 0; })) return "zeros";
  if (const std::string rows = exchanged_rows(pair, wrong); !rows.empty()) return rows;
  if (all(wrong, [](const auto& e) { return e.ulp <= 2; })) return "last-bit differences";
  if (const double factor = common_factor(wrong); factor != 0)
    return fmt::format("values off by a factor of {:.4g}", factor);
  if (const std::string blocks = exchanged_blocks(pair, wrong); !blocks.empty()) return blocks;
  if (all(wrong, [](const auto& e) { return e.got == -e.want; })) return "values with the wrong sign";
  return "wrong values";
}

struct Places {
  std::set<std::size_t> rows;
  std::set<std::int64_t> columns, column_blocks;
  std::set<int> experts;
  std::set<std::int64_t> tiles;  // row tile of the expert
};

Places places_of(const StagePair& pair, const Elements& wrong) {
  Places p;
  for (const WrongElement& e : wrong) {
    const JudgedRow& r = pair.rows[e.judged];
    p.rows.insert(e.judged);
    p.columns.insert(e.column);
    p.column_blocks.insert(e.column / pair.block_columns);
    p.experts.insert(r.expert);
    p.tiles.insert(pair.block_m > 0 && r.rank >= 0 ? r.rank / pair.block_m : 0);
  }
  return p;
}

std::string where(const StagePair& pair, const Elements& wrong) {
  const Places p = places_of(pair, wrong);
  const bool by_expert = p.experts.size() == 1 && *p.experts.begin() >= 0;
  const std::string of_expert = by_expert ? fmt::format(" of expert {}", *p.experts.begin()) : "";
  if (wrong.size() == 1) return "one element" + of_expert;
  if (p.rows.size() == 1 && p.column_blocks.size() == 1)
    return fmt::format("one row of one {}-column block{}", pair.block_columns, of_expert);
  if (p.rows.size() == 1) return "one row" + of_expert;
  if (p.columns.size() == 1) return fmt::format("column {}{}", *p.columns.begin(), of_expert);
  if (by_expert && p.column_blocks.size() == 1 && p.tiles.size() == 1 && pair.block_m > 0)
    return "one tile" + of_expert;
  if (p.column_blocks.size() == 1) return fmt::format("one {}-column block{}", pair.block_columns, of_expert);
  if (by_expert) return of_expert.substr(4);
  if (p.rows.size() == pair.rows.size() && p.experts.size() > 1) return "every row";
  return fmt::format("{} rows and {} columns", p.rows.size(), p.columns.size());
}

}  // namespace

std::string guess_fault(const StagePair& pair, const StageFindings& findings) {
  if (findings.elements.empty()) return "";
  return what(pair, findings.elements) + " in " + where(pair, findings.elements);
}

std::string guess_slots(const StagePair& pair, const StageFindings& findings, const Tensor& topk_ids,
                        int experts) {
  const auto ids = topk_ids.as<std::int32_t>();
  const std::size_t slots = std::size_t(topk_ids.shape().back());
  const auto has_no_expert = [&](std::size_t judged) {
    const std::size_t begin = std::size_t(pair.rows[judged].row) * slots;
    return std::any_of(ids.begin() + begin, ids.begin() + begin + slots,
                       [&](std::int32_t id) { return id < 0 || id >= experts; });
  };
  if (findings.elements.empty() ||
      !all(findings.elements, [&](const auto& e) { return has_no_expert(e.judged); }))
    return "";
  std::size_t whole = 0;
  for (std::size_t i = 0; i < pair.rows.size(); ++i) whole += !has_no_expert(i);
  if (whole == 0) return "";
  return fmt::format(
      "slots of no expert that were computed: every wrong row has one (topk_ids -1 or from {} on)", experts);
}

std::string guess_routing(const Tensor* topk_ids, int experts) {
  if (topk_ids == nullptr || topk_ids->dtype() != DType::i32)
    return "another choice of experts or other weights";
  const auto ids = topk_ids->as<std::int32_t>();
  const auto foreign = [&](std::int32_t id) { return id < 0 || id >= experts; };
  if (std::none_of(ids.begin(), ids.end(), foreign)) return "another choice of experts or other weights";
  const bool unwritten =
      std::any_of(ids.begin(), ids.end(), [](std::int32_t id) { return id == kUnwritten; });
  if (unwritten) return "ids that were never written";
  return fmt::format("ids of no expert: {} of {} are -1 or from {} on",
                     std::count_if(ids.begin(), ids.end(), foreign), ids.size(), experts);
}

}  // namespace moe::harness
