#include "harness/fault_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

namespace moe::harness {
namespace {

using Elements = std::vector<WrongElement>;

template <class Predicate>
bool all(const Elements& e, Predicate p) {
  return std::all_of(e.begin(), e.end(), p);
}

/// The bytes of each judged row as it should be, to find a row that came out in another's place.
std::map<std::string_view, std::size_t> rows_by_bytes(const StagePair& pair, std::size_t row_bytes) {
  std::map<std::string_view, std::size_t> rows;
  for (std::size_t i = 0; i < pair.rows.size(); ++i)
    rows.emplace(
        std::string_view(reinterpret_cast<const char*>(pair.bits->data()) + i * row_bytes, row_bytes), i);
  return rows;
}

/// "another expert's row" where every wrong row holds, byte for byte, what another judged row should hold.
std::string exchanged_rows(const StagePair& pair, const Elements& wrong) {
  if (pair.rows.size() < 2 || !pair.to_the_bit()) return "";
  const std::size_t row_bytes = pair.bits->bytes() / pair.rows.size();
  const auto rows = rows_by_bytes(pair, row_bytes);
  bool other_expert = false;
  std::size_t last = pair.rows.size();
  for (const WrongElement& e : wrong) {
    if (e.judged == last) continue;
    last = e.judged;
    const char* got =
        reinterpret_cast<const char*>(pair.got->data()) + std::size_t(pair.rows[last].row) * row_bytes;
    const auto found = rows.find(std::string_view(got, row_bytes));
    if (found == rows.end()) return "";
    other_expert = other_expert || pair.rows[found->second].expert != pair.rows[last].expert;
  }
  return other_expert ? "rows of another expert" : "rows of another token";
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

}  // namespace moe::harness
