#include "harness/compare_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "fixtures/files/to_float.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/poison.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kMostElements = 1'000'000;
constexpr std::int64_t kNotANumber = std::numeric_limits<std::int64_t>::max();

/// Bits of element `i`, zero-extended.
std::uint64_t bits_of(DType type, const std::byte* data, std::int64_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + std::size_t(i) * size_of(type), size_of(type));  // little-endian, as x86-64 is
  return bits;
}

bool is_floating(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::e4m3 || type == DType::e5m2;
}

/// The bits of an element that was never written.
std::uint64_t poison_bits(DType type) {
  const std::uint64_t every_byte = poison_of(type) * 0x0101010101010101u;
  return every_byte >> (64 - 8 * size_of(type));
}

/// A sign-magnitude float's bits as a number that grows by one from each value to the next; -0 and +0 differ
/// by one.
std::int64_t ordered(DType type, std::uint64_t bits) {
  const int width = int(8 * size_of(type));
  const std::uint64_t sign = std::uint64_t(1) << (width - 1);
  return bits & sign ? -1 - std::int64_t(bits ^ sign) : std::int64_t(bits);
}

/// Bits of a number that the type holds.
std::uint64_t encode(DType type, double value) {
  switch (type) {
    case DType::bf16:
      return encode_bf16(float(value));
    case DType::e4m3:
      return encode_e4m3(float(value));
    case DType::e5m2:
      return encode_e5m2(float(value));
    default:
      return float_bits(float(value));
  }
}

/// Units in the last place between what came and what is due; NaN against a number is the largest distance.
std::int64_t distance(DType type, std::uint64_t got_bits, double got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : kNotANumber;
  if (!is_floating(type)) return std::int64_t(std::min(std::abs(got - want), 9e18));
  return std::abs(ordered(type, got_bits) - ordered(type, encode(type, want)));
}

/// What one element should be and how far off it is.
struct Due {
  double want = 0, allowed = 0;  // allowed: distance in the direction of the error; 0 where judged to the bit
  double ratio = 0;              // |got - want| / allowed
  bool right = false, zero_is_right = false;
};

Due due_by_interval(const StagePair& pair, std::size_t at, double got) {
  const double want = pair.want[at], low = pair.low[at], high = pair.high[at];
  Due due{want, got > want ? high - want : want - low, 0, got >= low && got <= high, low <= 0 && high >= 0};
  if (std::isnan(low) || std::isnan(high)) due.right = std::isnan(got);
  const double error = std::abs(got - want);
  if (error > 0) due.ratio = due.allowed > 0 ? error / due.allowed : std::numeric_limits<double>::infinity();
  if (std::isnan(error)) due.ratio = due.right ? 0 : std::numeric_limits<double>::infinity();
  return due;
}

/// Whether `bits` are of the numbers from `low` to `high`; zeros by their signs, NaN (whatever its payload)
/// beside NaN.
bool is_between(DType type, std::uint64_t bits, std::uint64_t low, std::uint64_t high) {
  if (bits == low || bits == high) return true;
  const auto number = [&](std::uint64_t b) {
    return value_of(type, reinterpret_cast<const std::byte*>(&b), 0);  // little-endian, as x86-64 is
  };
  if (std::isnan(number(bits))) return std::isnan(number(low));
  return ordered(type, bits) > ordered(type, low) && ordered(type, bits) < ordered(type, high);
}

/// A NaN's payload is nobody's promise; every other bit is.
Due due_by_bits(const StagePair& pair, std::size_t at, std::uint64_t got_bits) {
  const auto i = std::int64_t(at);
  const std::byte *first = pair.bits->data(), *last = (pair.most != nullptr ? pair.most : pair.bits)->data();
  const double want = value_of(pair.type, first, i);
  return {want, 0, 0,
          is_between(pair.type, got_bits, bits_of(pair.type, first, i), bits_of(pair.type, last, i)),
          want == 0 || value_of(pair.type, last, i) == 0};
}

struct Judge {
  const StagePair& pair;
  StageFindings& out;
  std::map<std::pair<int, int>, BlockVerdict> blocks{};
  double worst_score = -1;

  bool same_row(std::size_t judged) const;
  void row(std::size_t judged);
  void element(std::size_t judged, std::int64_t column, BlockVerdict& block);
  void note_wrong(const WrongElement& e, const Due& due);
};

/// Equal bytes need no look at each element, once it is known that the stage could have failed.
bool Judge::same_row(std::size_t judged) const {
  const std::size_t bytes = std::size_t(pair.columns) * size_of(pair.type);
  return out.could_fail && pair.to_the_bit() && pair.most == nullptr &&
         std::memcmp(pair.got->data() + std::size_t(pair.rows[judged].row) * bytes,
                     pair.bits->data() + judged * bytes, bytes) == 0;
}

void Judge::row(std::size_t judged) {
  const bool same = same_row(judged);
  const int blocks_a_row = int((pair.columns + pair.block_columns - 1) / pair.block_columns);
  for (int b = 0; b < blocks_a_row; ++b) {
    BlockVerdict& block = blocks[{pair.rows[judged].expert, b}];
    block.stage = pair.stage;
    block.expert = pair.rows[judged].expert;
    block.column_block = b;
    const std::int64_t begin = std::int64_t(b) * pair.block_columns;
    const std::int64_t end = std::min<std::int64_t>(pair.columns, begin + pair.block_columns);
    block.checked += end - begin;
    out.checked += end - begin;
    for (std::int64_t column = begin; column < end && !same; ++column) element(judged, column, block);
  }
}

void Judge::element(std::size_t judged, std::int64_t column, BlockVerdict& block) {
  const std::int64_t at_got = pair.rows[judged].row * pair.columns + column;
  const std::size_t at = judged * std::size_t(pair.columns) + std::size_t(column);
  const std::uint64_t got_bits = bits_of(pair.type, pair.got->data(), at_got);
  const double got = value_of(pair.type, pair.got->data(), at_got);
  const Due due = pair.to_the_bit() ? due_by_bits(pair, at, got_bits) : due_by_interval(pair, at, got);
  if (!due.zero_is_right) out.could_fail = true;
  if (pair.most != nullptr)
    out.open += bits_of(pair.type, pair.bits->data(), std::int64_t(at)) !=
                bits_of(pair.type, pair.most->data(), std::int64_t(at));
  block.worst_ratio = std::max(block.worst_ratio, due.ratio);
  if (due.right) return;
  ++block.wrong;
  if (!pair.hard_low.empty()) out.outside_hard += !(got >= pair.hard_low[at] && got <= pair.hard_high[at]);
  note_wrong({judged, column, got, due.want, distance(pair.type, got_bits, got, due.want),
              got_bits == poison_bits(pair.type)},
             due);
}

void Judge::note_wrong(const WrongElement& e, const Due& due) {
  ++out.wrong;
  if (out.elements.size() < kMostElements) out.elements.push_back(e);
  const double score = pair.to_the_bit() ? double(e.ulp) : due.ratio;
  if (score <= worst_score) return;
  worst_score = score;
  const JudgedRow& r = pair.rows[e.judged];
  Place place;
  place.stage = pair.stage;
  place.expert = r.expert;
  place.row = r.row;
  place.column = e.column;
  place.tile_row = pair.block_m > 0 && r.rank >= 0 ? int(r.rank / pair.block_m) : -1;
  place.tile_column = int(e.column / pair.block_columns);
  place.got = e.got;
  place.want = e.want;
  place.bound = due.allowed;
  place.ulp = e.ulp;
  out.worst = place;
  out.worst_rank = r.rank;
  out.worst_unwritten = e.poison && (std::isnan(e.got) || !is_floating(pair.type));
}

/// "[4, 9, 256]"
std::string shape_text(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.shape(), ", ")); }

/// Elements a row: the innermost dimension; rows of a vector have one.
std::int64_t columns_of(const Tensor& t) { return t.shape().size() < 2 ? 1 : t.shape().back(); }

std::string shape_error(const StagePair& pair) {
  if (pair.got == nullptr) return fmt::format("the kernel gave no '{}'", pair.stage);
  if (pair.got->dtype() != pair.type)
    return fmt::format("'{}' is {} where {} is due", pair.stage, name(pair.got->dtype()), name(pair.type));
  if (columns_of(*pair.got) != pair.columns)
    return fmt::format("'{}' is {}: it has {} columns where {} are due", pair.stage, shape_text(*pair.got),
                       columns_of(*pair.got), pair.columns);
  const std::int64_t rows = pair.got->size() / std::max<std::int64_t>(pair.columns, 1);
  for (const JudgedRow& r : pair.rows)
    if (r.row >= rows)
      return fmt::format("'{}' is {}: it has {} rows; row {} is due", pair.stage, shape_text(*pair.got), rows,
                         r.row);
  return "";
}

}  // namespace

bool is_between(const Tensor& got, std::int64_t i, const Tensor& least, const Tensor& most, std::int64_t at) {
  const DType type = got.dtype();
  return is_between(type, bits_of(type, got.data(), i), bits_of(type, least.data(), at),
                    bits_of(type, most.data(), at));
}

std::string two_values(const char* form, double first, double second) {
  std::string a, b;
  for (int digits = 6; digits <= 17 && a == b; digits += digits == 6 ? 3 : 8) {
    a = fmt::format("{:.{}g}", first, digits);
    b = fmt::format("{:.{}g}", second, digits);
  }
  return fmt::format(fmt::runtime(form), a, b);
}

double value_of(DType type, const std::byte* data, std::int64_t i) {
  const std::uint64_t bits = bits_of(type, data, i);
  switch (type) {
    case DType::f32:
      return double(bits_float(std::uint32_t(bits)));
    case DType::bf16:
      return double(decode_bf16(std::uint16_t(bits)));
    case DType::e4m3:
      return double(decode_e4m3(std::uint8_t(bits)));
    case DType::e5m2:
      return double(decode_e5m2(std::uint8_t(bits)));
    case DType::i32:
      return double(std::int32_t(std::uint32_t(bits)));
    case DType::i64:
      return double(std::int64_t(bits));
    case DType::u8:
      return double(bits);
    case DType::f16:
      return double(decode_f16(std::uint16_t(bits)));
    case DType::ue8m0:
      return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, int(bits) - 127);
  }
  return 0;
}

StageFindings compare_stage(const StagePair& pair) {
  StageFindings out;
  out.shape_error = shape_error(pair);
  if (!out.shape_error.empty()) return out;
  Judge judge{pair, out};
  for (std::size_t i = 0; i < pair.rows.size(); ++i) judge.row(i);
  for (auto& [key, block] : judge.blocks) out.blocks.push_back(std::move(block));
  return out;
}

}  // namespace moe::harness
