#include "harness/values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kLargestCount = std::int64_t(1) << 40;
constexpr std::size_t kMostCounts = 4096;

/// Whole of `text` as a decimal integer.
bool to_integer(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

[[noreturn]] void bad_counts(std::string_view item, std::int64_t least) {
  throw BadInput(
      fmt::format("'{}' is not a count from {}; write 16, a list 1,2,4 or a range 1:4096:x2", item, least));
}

/// "first:last", "first:last:xFACTOR" or "first:last:+STEP".
void append_range(std::string_view item, std::int64_t least, std::vector<std::int64_t>& out) {
  const auto parts = split(item, ':');
  std::int64_t first = 0, last = 0, step = 1;
  const bool multiply = parts.size() == 3 && !parts[2].empty() && parts[2][0] == 'x';
  const bool stepped = parts.size() == 3 && !parts[2].empty() && parts[2][0] == '+';
  if (parts.size() > 3 || (parts.size() == 3 && !multiply && !stepped)) bad_counts(item, least);
  if (!to_integer(parts[0], first) || !to_integer(parts[1], last) || first < least || last < first ||
      last > kLargestCount)
    bad_counts(item, least);
  if (parts.size() == 3 && !to_integer(std::string_view(parts[2]).substr(1), step)) bad_counts(item, least);
  if (step < (multiply ? 2 : 1) || step > kLargestCount)
    throw BadInput(fmt::format("range '{}' does not grow; write first:last:x2 or first:last:+8", item));
  if (multiply && first == 0)
    throw BadInput(fmt::format("range '{}' multiplies from 0; start it at 1", item));
  for (std::int64_t v = first; v <= last; v = multiply ? v * step : v + step) {
    if (out.size() >= kMostCounts)
      throw BadInput(fmt::format("'{}' gives more than {} values; use larger steps", item, kMostCounts));
    out.push_back(v);
    if (multiply && v > kLargestCount / step) break;
  }
}

double parse_scaled(std::string_view text, std::string_view suffixes, const double* factors,
                    const char* what) {
  std::string number(text);
  double factor = 1;
  if (!number.empty()) {
    if (const auto at = suffixes.find(number.back()); at != std::string_view::npos) {
      factor = factors[at];
      number.pop_back();
    }
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value) || !(value > 0))
    throw BadInput(fmt::format("'{}' is not {}", text, what));
  return value * factor;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::vector<std::int64_t> parse_counts(std::string_view text, std::int64_t least) {
  std::vector<std::int64_t> values;
  for (const std::string& item : split(text, ',')) {
    std::int64_t value = 0;
    if (item.find(':') != std::string::npos) {
      append_range(item, least, values);
    } else if (to_integer(item, value) && value >= least && value <= kLargestCount &&
               values.size() < kMostCounts) {
      values.push_back(value);
    } else {
      bad_counts(item, least);
    }
  }
  return values;
}

std::int64_t parse_count(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (!to_integer(text, value) || value < least || value > most)
    throw BadInput(fmt::format("'{}' is not a whole number from {} to {}", text, least, most));
  return value;
}

std::uint64_t parse_seed(std::string_view text) {
  const bool hex = text.starts_with("0x");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    throw BadInput(
        fmt::format("'{}' is not a seed; write a number from 0 to 2^64-1, decimal or 0x...", text));
  return value;
}

double parse_duration(std::string_view text) {
  static constexpr double kFactors[] = {1, 60, 3600};
  return parse_scaled(text, "smh", kFactors, "a duration above zero; write 90s, 10m or 2h");
}

double parse_amount(std::string_view text) {
  static constexpr double kFactors[] = {1e3, 1e6, 1e9, 1e12};
  const double value = parse_scaled(text, "kMGT", kFactors, "an amount from 1; write 2e9, 500M or 2G");
  if (value < 1) throw BadInput(fmt::format("'{}' is not an amount from 1; write 2e9, 500M or 2G", text));
  return value;
}

Shard parse_shard(std::string_view text) {
  const auto parts = split(text, '/');
  std::int64_t index = 0, count = 0;
  if (parts.size() != 2 || !to_integer(parts[0], index) || !to_integer(parts[1], count) || index < 1 ||
      count < index || count > 100000)
    throw BadInput(fmt::format("'{}' is not a shard; write 2/5 for the second of five", text));
  return {int(index), int(count)};
}

}  // namespace moe::harness
