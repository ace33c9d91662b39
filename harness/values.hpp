// How are the values of options written? Lists, ranges, durations, amounts and shards; every function throws
// BadInput with what was given and what would be right, and leaves the option's name to the caller.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moe::harness {

/// "16", "1,2,4", "1:4096:x2" (1, 2, 4 ... 4096), "0:64:+16" (0, 16 ... 64), "1:4" (1, 2, 3, 4), or a list of
/// those. Counts from `least` to 2^40, at most 4096 of them.
std::vector<std::int64_t> parse_counts(std::string_view text, std::int64_t least);
/// One count from `least` to `most`.
std::int64_t parse_count(std::string_view text, std::int64_t least, std::int64_t most);
/// 64-bit unsigned, decimal or 0x.
std::uint64_t parse_seed(std::string_view text);
/// "90", "90s", "10m", "2h" -> seconds, above zero.
double parse_duration(std::string_view text);
/// "2000000000", "2e9", "500M", "2G" -> amount (decimal prefixes), at least 1.
double parse_amount(std::string_view text);

struct Shard {
  int index = 1, count = 1;  // 1 <= index <= count
  bool owns(std::size_t i) const { return int(i % std::size_t(count)) == index - 1; }
  bool operator==(const Shard&) const = default;
};
Shard parse_shard(std::string_view text);  // "2/5"

std::vector<std::string> split(std::string_view text, char separator);

}  // namespace moe::harness
