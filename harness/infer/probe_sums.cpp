// Probes of the GEMMs: sums whose true value is zero, and results half way between two bf16 values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/probe_fill.hpp"

namespace moe::harness {
namespace {

/// An amax that no formula divides exactly.
float odd_amax(ProbeRandom& random) { return float(129 + 2 * random.below(63)) / 128; }

/// block128: groups 2 p and 2 p + 1 of a row have the same codes, the weights of the second are the negated
/// ones of the first, and its scales have nearly the same product: what is left is rounding.
void block_orders(ProbeInputs& in) {
  const std::int64_t pairs = (in.groups() - 1) / 2, blocks = (in.inner() + 127) / 128;
  std::vector<float> amax;
  for (std::int64_t g = 0; g < 2 * pairs; ++g) amax.push_back(odd_amax(in.random));
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    for (std::int64_t i = 0; i < 128 * pairs; ++i) {
      const float code = i % 128 == 127 ? 448 : decode_e4m3(std::uint8_t(0x50 + in.random.below(0x20)));
      for (int half = 0; half < 2; ++half) {
        const std::int64_t g = i / 128 * 2 + half;
        const float top = std::ldexp(amax[std::size_t(g)], int(t % 3));
        in.set_x(t, g * 128 + i % 128, top * code / 448);
      }
    }
  }
  if (in.groups() % 2 == 0)  // the group beside the pairs has a scale, and no weights
    for (std::int64_t t = 0; t < in.tokens(); ++t) in.set_x(t, 2 * pairs * 128, 1);
  fill_constants(in);
  in.gates_from(in.hidden() - 2, 64);
  for (int e = 0; e < in.experts(); ++e) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t g = (b + e) % pairs * 2;
      const float scale = 0x1p20f * (1 + float(in.random.below(1 << 23)) * 0x1p-23f);
      const float a0 = amax[std::size_t(g)] / 448, a1 = amax[std::size_t(g + 1)] / 448;
      in.set_w13_scale(e, in.up_row(b * 128), g * 128, scale);
      in.set_w13_scale(e, in.up_row(b * 128), (g + 1) * 128, a0 * scale / a1);
      for (std::int64_t j = b * 128; j < std::min(in.inner(), (b + 1) * 128); ++j)
        for (int i = 0; i < 128; ++i) {
          const float w = code_value(in.random) * in.random.sign();
          in.set_w13(e, in.up_row(j), g * 128 + i, w);
          in.set_w13(e, in.up_row(j), (g + 1) * 128 + i, -w);
        }
    }
  }
}

/// Half way between two bf16 values, the lower of which is half way between two e4m3 values (1 and 1.125).
constexpr double kTwofoldMiddle = 273.0 / 256;

/// The peak of every 128 values is `top`, whose code is 448; returns the scale of such a row.
float flat_row(ProbeInputs& in, std::int64_t t, float top, float scale) {
  for (std::int64_t k = 0; k < in.hidden(); ++k)
    in.set_x(t, k, k % 128 == 127 ? top : scale * 16 * code_value(in.random) * in.random.sign());
  return scale;
}

/// One scale a row: value j of expert e straddles a boundary in the rows of one token.
void channel_orders(ProbeInputs& in) {
  std::vector<float> a;
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    const float top = odd_amax(in.random);
    a.push_back(flat_row(in, t, top, top / 448));
  }
  in.gates_from(127, 64);
  for (int e = 0; e < in.experts(); ++e) {
    for (std::int64_t j = 0; j < in.inner(); ++j) {
      const auto target =
          std::size_t((e + j % 128 * in.experts()) % in.tokens());  // e, e + L, ... are the expert's
      const double middle = double(257 + 2 * in.random.below(127)) / 256;
      const float w = telling_scale(in.random, 448, a[target], middle, int(j));
      in.set_w13(e, in.up_row(j), 127, 1);
      in.set_w13_scale(e, in.up_row(j), 0, w != 0 ? w : 1);
    }
  }
}

/// One scale a layer: gates (128 times as large) and values straddle the same boundary, and so do the codes
/// of their product, under a given scale as under one that follows from it.
void tensor_orders(ProbeInputs& in, int number) {
  const bool given = in.problem().quant.kind == QuantKind::tensor_static;
  const bool gated = in.problem().shape.gated();
  const float top = odd_amax(in.random), scale = given ? 0x1.234568p-8f : top / 448;
  const double below = 272.0 / 256, above = 274.0 / 256;
  in.set_static_scales(scale, float((gated ? 128 : 1) * below * above / (8.5)));
  for (std::int64_t t = 0; t < in.tokens(); ++t) flat_row(in, t, given ? 448 * scale : top, scale);
  for (int e = 0; e < in.experts(); ++e) {
    float code = 1, w = 0;
    for (int i = 0; i < 32 && w == 0; ++i) {
      code = code_value(in.random);
      w = telling_scale(in.random, 448 * code, scale, kTwofoldMiddle, number);
    }
    in.set_w13_scale(e, 0, 0, w != 0 ? w : 1);
    for (std::int64_t j = 0; j < in.inner(); ++j) {
      if (gated) in.set_w13(e, j, 127, 128 * code);
      in.set_w13(e, in.up_row(j), 127, code);
    }
  }
}

/// Where the data of a sum stand: `count` values from `first`, the second half a permutation of the first.
struct Span {
  std::int64_t first = 0;
  int count = 0;
};

std::vector<Span> spans(const ProbeInputs& in) {
  const std::int64_t data = in.hidden() - 128;
  if (!in.problem().quant.block()) return {{0, int(data / 2 * 2)}};
  std::vector<Span> all;
  for (std::int64_t g = 0; g * 128 < data; ++g) all.push_back({g * 128, 128});
  return all;
}

void spread_rows(ProbeInputs& in, const Span& span, const std::vector<int>& order) {
  const int half = span.count / 2;
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    for (int i = 0; i < half; ++i) {
      const float code = i == 0 ? 448 : wide_value(in.random);
      in.set_x(t, span.first + i, code * kExactScale);
      in.set_x(t, span.first + half + order[std::size_t(i)], code * kExactScale);
    }
  }
}

/// Value j of expert e over one span: weights that cancel, or any.
void spread_weights(ProbeInputs& in, int e, std::int64_t j, const Span& span, const std::vector<int>& order,
                    bool cancel) {
  const int half = span.count / 2;
  for (int i = 0; i < half; ++i) {
    const float w = wide_value(in.random), other = cancel ? -w : wide_value(in.random);
    in.set_w13(e, in.up_row(j), span.first + i, w);
    in.set_w13(e, in.up_row(j), span.first + half + order[std::size_t(i)], other);
  }
}

}  // namespace

float wide_value(ProbeRandom& random) {
  return decode_e4m3(std::uint8_t(random.below(0x7F) | (random.below(2) << 7)));
}

float code_value(ProbeRandom& random) { return float(8 + random.below(8)) / 8; }

std::vector<int> permutation(int n, ProbeRandom& random) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int i = n - 1; i > 0; --i) std::swap(order[std::size_t(i)], order[std::size_t(random.below(i + 1))]);
  return order;
}

float telling_scale(ProbeRandom& random, float p, float a, double middle, int which) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    const float w =
        bits_float(float_bits(float(middle / (double(p) * a))) + std::uint32_t(random.below(5)) - 2);
    const std::uint16_t bits[] = {encode_bf16((p * a) * w), encode_bf16((p * w) * a),
                                  encode_bf16(p * (a * w))};
    if (bits[which % 3] != bits[(which + 1) % 3]) return w;
  }
  return 0;
}

void fill_orders(ProbeInputs& in, int number) {
  const QuantScheme& quant = in.problem().quant;
  if (quant.block())
    block_orders(in);
  else if (quant.tensor())
    tensor_orders(in, number);
  else
    channel_orders(in);
  in.identity_w2();
}

void fill_rounding(ProbeInputs& in) {
  fill_exact_rows(in);
  in.gates_from(in.hidden() - 2, 64);
  for (int e = 0; e < in.experts(); ++e)
    for (std::int64_t j = 0; j < in.inner(); ++j) {
      const float sign = in.random.sign();
      in.set_w13(e, in.up_row(j), in.hidden() - 2, sign);  // 1 and 1.75 in every row: codes 256 and 448
      in.set_w13(e, in.up_row(j), in.hidden() - 1, sign * float(2 * (j % 4) + 1) / 128);
    }
  in.identity_w2();
}

void fill_chains(ProbeInputs& in) {
  in.set_static_scales(kExactScale, 0x1.3p-6f);
  const auto all = spans(in);
  const std::vector<int> order = permutation(all[0].count / 2, in.random);
  for (const Span& span : all) spread_rows(in, span, order);
  fill_constants(in);
  in.gates_from(in.hidden() - 2, 64);
  for (int e = 0; e < in.experts(); ++e) {
    for (std::int64_t j = 0; j < in.inner(); ++j) {
      const bool cancel = j / 128 % 2 == 1;  // a quantised group has sums of one size
      for (std::size_t s = 0; s < all.size(); ++s)
        if (!cancel || std::size_t(j) % all.size() == s) spread_weights(in, e, j, all[s], order, cancel);
    }
  }
  in.set_all_scales("w13_scale", in.problem().quant.block() ? 0x1p-10f : 0x1p-4f);
  if (in.problem().quant.block())
    for (int e = 0; e < in.experts(); ++e)
      for (std::int64_t n = 0; n < in.problem().shape.up_rows(); n += 128)
        in.set_w13_scale(e, n, in.hidden() - 1, 1);
  else
    in.gates_from(in.hidden() - 1, 448);
  in.identity_w2();
}

}  // namespace moe::harness
