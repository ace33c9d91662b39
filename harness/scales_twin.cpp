#include "harness/scales_twin.hpp"

#include <algorithm>
#include <cstring>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/generated_values.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

/// Fraction bits of a scale: 7 as drawn, then .011 011, then as drawn: a cut to 7 or to 10 bits, to nearest
/// or toward zero, takes away 0.42 of the last bit that is left.
std::uint32_t odd_fraction(std::uint32_t fraction) { return (fraction & 0x7F03FFu) | 0x6C00u; }

/// Scales in use keep their sign and size.
void fill_scales(Tensor& scales) {
  for (float& s : scales.as<float>()) {
    const std::uint32_t bits = float_bits(s);
    if (s != 0) s = bits_float((bits & 0xFF800000u) | odd_fraction(bits & 0x7FFFFFu));
  }
}

/// Sizes that leave a layer's activations of order 1: the largest weight is between 3.5 and 14.
void resize_scales(Tensor& scales) {
  for (float& s : scales.as<float>()) {
    const std::uint32_t bits = float_bits(s);
    s = bits_float(std::uint32_t(127 - 7 + int(bits & 1u)) << 23 | (bits & 0x7FFFFFu));
  }
}

/// Half of the codes are large, so that many products of two of them are in sight of a group's largest.
std::uint8_t any_code(std::uint32_t bits) {
  const std::uint32_t code = bits >> 8 & 1u ? 0x60u + (bits & 0x7Fu) % 31u : 1u + (bits & 0x7Fu) % 126u;
  return std::uint8_t(code | (bits & 0x80u));
}

/// Column of a group's largest value, of the 128 columns that begin at `first`: the same in every row.
std::int64_t peak_column(std::uint64_t seed, std::int64_t first, std::int64_t columns) {
  const std::int64_t width = std::min<std::int64_t>(kScaleBlock, columns - first);
  return first +
         std::int64_t(group_word(seed, TensorNumber::hidden, std::uint64_t(first)) % std::uint64_t(width));
}

/// Its neighbour in the same 128; itself where it has none.
std::int64_t beside_peak(std::uint64_t seed, std::int64_t first, std::int64_t columns) {
  const std::int64_t peak = peak_column(seed, first, columns), other = (peak - first) ^ 1;
  if (first + other < std::min(columns, first + kScaleBlock)) return first + other;
  return std::max(first, peak - 1);
}

/// Which rows hold two codes, and where.
enum class Pairs {
  none,
  anywhere,   // in one k-block
  at_anchors  // the two activations of a k-block that add_anchors makes large
};

/// A second code in the k-block of `row`'s only one, three to six powers of two below it, with an odd
/// significand: of activations within three powers of two the two products make a sum of 9 to 14 bits,
/// which bf16 and mostly f16 cannot hold and every accumulator does.
void add_second(std::uint8_t* row, std::int64_t k, std::int64_t at, Pairs pairs, std::uint64_t seed,
                std::uint32_t bits) {
  const std::int64_t first = at / kScaleBlock * kScaleBlock,
                     width = std::min(k - first, std::int64_t(kScaleBlock));
  if (width < 2) return;
  std::int64_t other = first + (at - first + 1 + std::int64_t(bits >> 8) % (width - 1)) % width;
  if (pairs == Pairs::at_anchors) {
    row[at] = 0;
    at = peak_column(seed, first, k), other = beside_peak(seed, first, k);
    if (bits >> 1 & 1u) std::swap(at, other);
  }
  const std::uint32_t large = 13 + (bits >> 2 & 1u), lower = 3 + (bits >> 3 & 3u);
  row[at] = std::uint8_t((bits >> 24 & 0x80u) | large << 3 | (bits >> 20 & 7u));
  row[other] = std::uint8_t((bits >> 23 & 0x80u) | (large - lower) << 3 | (bits >> 17 & 6u) | 1u);
}

/// One code in each row of the experts that hold anything, two in half of the rows where there are pairs.
void thin_out(Tensor& w, std::uint64_t seed, TensorNumber number, Pairs pairs) {
  constexpr std::uint64_t kSecond = std::uint64_t(1) << 40;  // words of the second code
  const std::int64_t rows = w.dim(1), k = w.dim(2);
  auto* codes = reinterpret_cast<std::uint8_t*>(w.data());
  for (std::int64_t e = 0; e < w.dim(0); ++e) {
    if (!w.filled_groups.empty() && !w.filled_groups[std::size_t(e)]) continue;
    std::memset(codes + e * rows * k, 0, std::size_t(rows * k));
    for (std::int64_t row = e * rows; row < (e + 1) * rows; ++row) {
      const std::uint32_t bits = group_word(seed, number, std::uint64_t(row)),
                          more = group_word(seed, number, kSecond + std::uint64_t(row));
      const std::int64_t at = std::int64_t((bits >> 9) % std::uint64_t(k));
      codes[row * k + at] = any_code(bits);
      if (pairs != Pairs::none && (more & 1u)) add_second(codes + row * k, k, at, pairs, seed, more);
    }
  }
  w.generated.reset();
}

/// Rows that a group owns; padding holds zeros.
void fill_codes_of(Tensor& a, std::uint64_t seed) {
  const auto codes = a.as<std::uint8_t>();
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (codes[i] != 0) codes[i] = any_code(random_word(seed, TensorNumber::a_codes, i));
  a.generated.reset();
}

/// 150 / 128, 3 modulo 7: over 448 it is 2^n times a number whose fraction bits behind the seventh are .011
/// 011..
constexpr float kPeak = 150.0f / 128.0f;

/// Of each 128 activations two are of order 1 and more, whatever the activation: large positive gates that
/// read a peak, the same for both, and ups that do. No group of zeros is left, which some quantisers divide
/// by zero.
void add_anchors(Tensor& w13, std::int64_t activations, std::uint64_t seed) {
  const std::int64_t rows = w13.dim(1), k = w13.dim(2), blocks = (k + kScaleBlock - 1) / kScaleBlock;
  auto* codes = reinterpret_cast<std::uint8_t*>(w13.data());
  for (std::int64_t e = 0; e < w13.dim(0); ++e) {
    if (!w13.filled_groups.empty() && !w13.filled_groups[std::size_t(e)]) continue;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t column = row % activations, first = column / kScaleBlock * kScaleBlock;
      const std::int64_t peak = peak_column(seed, first, activations);
      if (column != peak && column != beside_peak(seed, first, activations)) continue;
      std::uint8_t* code = codes + (e * rows + row) * k;
      const std::uint32_t bits = group_word(seed, TensorNumber::w13_bias, std::uint64_t(e * rows + row)),
                          pair = group_word(seed, TensorNumber::w13_bias,
                                            std::uint64_t(e * rows + row - column + peak));
      std::memset(code, 0, std::size_t(k));
      code[peak_column(seed, std::int64_t(pair >> 8) % blocks * kScaleBlock, k)] =
          std::uint8_t(0x70u + bits % 15u);
    }
  }
}

/// A value below the peak: half of them within four powers of two, half down to a subnormal code.
float below_peak(std::uint32_t bits) {
  const int depth = 1 + int(bits >> 7 & 1u ? (bits >> 8) % 4u : (bits >> 8) % 18u);
  const float size = power_of_two(-depth) * (1.0f + float(bits & 0x7Fu) / 128.0f);
  return bits >> 31 ? -size : size;
}

void fill_hidden(Tensor& hidden, std::uint64_t seed) {
  const std::int64_t columns = hidden.dim(1);
  const auto values = hidden.as<std::uint16_t>();
  for (std::int64_t i = 0; i < hidden.size(); ++i) {
    const std::int64_t column = i % columns, first = column / kScaleBlock * kScaleBlock;
    const std::uint64_t block = std::uint64_t(columns + i / columns * columns + first);
    const float size = power_of_two(int(group_word(seed, TensorNumber::hidden, block) >> 30) % 3 - 1);
    const std::uint32_t bits = random_word(seed, TensorNumber::hidden, std::uint64_t(i));
    const bool peak = column == peak_column(seed, first, columns);
    values[std::size_t(i)] = encode_bf16(size * (peak ? kPeak : below_peak(bits)));
  }
  hidden.generated.reset();
}

}  // namespace

Case scales_twin(const Case& c) {
  Case twin = c;
  twin.problem.data = DataMode::normal;
  twin.problem.files = {};
  return twin;
}

TensorSet scales_twin_inputs(const Case& twin, const Routing& routing, bool pairs, int threads) {
  const Problem& p = twin.problem;
  TensorSet inputs = make_inputs(p, twin.choice, routing, threads);
  const bool whole = p.quant.scale_format == ScaleFormat::ue8m0;
  for (Tensor& t : inputs.all()) {
    const std::string& name = t.name();
    if (name == "w" || name == "w13" || name == "w2")
      thin_out(t, p.seed, name == "w2" || p.gemm == 2 ? TensorNumber::w2 : TensorNumber::w13,
               !pairs         ? Pairs::none
               : name == "w2" ? Pairs::at_anchors
                              : Pairs::anywhere);
    else if (name == "a_codes")
      fill_codes_of(t, p.seed);
    else if (name == "hidden")
      fill_hidden(t, p.seed);
    else if (name.ends_with("_bias") && name != "router_bias")
      std::fill(t.as<float>().begin(), t.as<float>().end(), 0.0f);
    if (name == "w13") add_anchors(t, p.shape.local_intermediate(), p.seed);
    if (name == "w13_scale" || name == "w2_scale") resize_scales(t);
    if (name == "a1_scale" || name == "a2_scale")
      t.as<float>()[0] = power_of_two(name == "a1_scale" ? -9 : -6);
    if (name.ends_with("_scale") && !whole) fill_scales(t);
  }
  return inputs;
}

}  // namespace moe::harness
