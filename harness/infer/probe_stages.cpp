// Probes of the stages beside the GEMMs: everything that multiplies is one-hot.
#include <algorithm>
#include <cmath>
#include <map>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/probe_fill.hpp"
#include "reference/quantize.hpp"

namespace moe::harness {
namespace {

using reference::QuantRule;

/// The six ways from an amax to a code.
std::vector<QuantRule> rules() {
  std::vector<QuantRule> all;
  for (int scale = 0; scale < 2; ++scale)
    for (int quant = 0; quant < 3; ++quant)
      all.push_back({0, ScaleFormula(scale), QuantFormula(quant), ScaleFormat::f32});
  return all;
}

/// An amax (or a given scale) and the values whose codes depend on the rule.
struct Ties {
  float top = 0;
  std::vector<float> values;
  std::vector<std::vector<std::uint8_t>> codes;  // of each rule, for the values
};

/// `code(rule, value)` over all bf16 values below `most`, down to 2^-14 of it.
template <class Code>
Ties find_ties(float top, float most, Code code) {
  const auto all = rules();
  Ties ties{top, {}, std::vector<std::vector<std::uint8_t>>(all.size())};
  for (int exponent = -14; exponent <= 1; ++exponent) {
    for (int m = 128; m < 256; ++m) {
      const float x = std::ldexp(float(m), exponent - 7);
      if (x >= most) continue;
      std::vector<std::uint8_t> codes;
      for (const QuantRule& rule : all) codes.push_back(code(rule, x));
      if (std::all_of(codes.begin(), codes.end(), [&](std::uint8_t c) { return c == codes[0]; })) continue;
      ties.values.push_back(x);
      for (std::size_t r = 0; r < all.size(); ++r) ties.codes[r].push_back(codes[r]);
    }
  }
  return ties;
}

/// In an order in which each tells apart as many rules as it can that those before it do not.
std::vector<Ties> best_first(std::vector<Ties> ties) {
  std::vector<int> kind(rules().size(), 0);  // rules of one kind are not told apart so far
  const auto split = [&](const Ties& t) {
    std::map<std::pair<int, std::vector<std::uint8_t>>, int> kinds;
    std::vector<int> finer;
    for (std::size_t r = 0; r < kind.size(); ++r)
      finer.push_back(kinds.try_emplace({kind[r], t.codes[r]}, int(kinds.size())).first->second);
    return std::pair(kinds.size(), finer);
  };
  for (auto first = ties.begin(); first != ties.end(); ++first) {
    const auto best = std::max_element(first, ties.end(), [&](const Ties& a, const Ties& b) {
      return std::pair(split(a).first, a.values.size()) < std::pair(split(b).first, b.values.size());
    });
    std::iter_swap(first, best);
    kind = split(*first).second;
    if (first - ties.begin() == 7) break;  // more runs or rows than that are not asked first
  }
  return ties;
}

/// For each amax in [1, 2), best first.
std::vector<Ties> amax_ties() {
  std::vector<Ties> all;
  for (int m = 129; m < 256; ++m) {
    const float amax = float(m) / 128;
    const auto code = [&](const QuantRule& rule, float x) {
      return reference::quantize_value(rule, x, amax, reference::scale_of_amax(rule, amax));
    };
    all.push_back(find_ties(amax, amax, code));
  }
  return best_first(std::move(all));
}

/// For each given scale in [2^-8, 2^-7), best first.
std::vector<Ties> static_ties() {
  std::vector<Ties> all;
  for (int m = 129; m < 256; ++m) {
    const float scale = std::ldexp(float(m), -15);
    all.push_back(find_ties(scale, 448 * scale, [&](const QuantRule& rule, float x) {
      return reference::quantize_static(rule, x, scale);
    }));
  }
  return best_first(std::move(all));
}

/// Value j of every expert is `w` times x[j].
void select_up(ProbeInputs& in, float w) {
  const std::int64_t data = std::max<std::int64_t>(in.hidden() - 128, 128);
  for (int e = 0; e < in.experts(); ++e)
    for (std::int64_t j = 0; j < in.inner(); ++j) in.set_w13(e, in.up_row(j), j % data, w);
}

/// `count` values from `first` of a row: the peak in the last place, ties and ordinary values before it.
void tie_group(ProbeInputs& in, std::int64_t token, std::int64_t first, std::int64_t count, const Ties& ties,
               float peak) {
  for (std::int64_t i = 0; i < count; ++i) {
    float x = std::ldexp(peak, -in.random.below(9)) * float(128 + in.random.below(128)) / 256;
    if (i % 3 != 0 && !ties.values.empty()) x = ties.values[in.random.next() % ties.values.size()];
    if (i % 128 == 127) x = peak;
    in.set_x(token, first + i, i % 128 == 127 ? x : x * in.random.sign());
  }
}

}  // namespace

float gate_factor(const MoeShape& shape) {
  return shape.activation == Activation::silu_mul_clamped && shape.limit > 0 && shape.limit < 16 ? 4 : 8;
}

void fill_constants(ProbeInputs& in) {
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    for (std::int64_t k = in.hidden() - 128; k < in.hidden(); ++k)
      in.set_x(t, std::max<std::int64_t>(k, 0), 0);
    in.set_x(t, in.hidden() - 2, 1);
    in.set_x(t, in.hidden() - 1, kExactPeak);
  }
}

void fill_exact_rows(ProbeInputs& in) {
  in.set_static_scales(kExactScale, 0x1p-2f);
  for (std::int64_t t = 0; t < in.tokens(); ++t)
    for (std::int64_t k = 0; k < in.hidden(); ++k)
      in.set_x(t, k, k % 128 == 127 ? kExactPeak : float(8 + in.random.below(7)) / 8);
  fill_constants(in);
}

void fill_ties(ProbeInputs& in, int number) {
  const Problem& p = in.problem();
  const bool given = p.quant.kind == QuantKind::tensor_static;
  const auto list = given ? static_ties() : amax_ties();
  in.set_static_scales(list[0].top, 0.0390625f);
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    if (p.quant.block()) {
      for (std::int64_t g = 0; g < in.groups(); ++g) {
        const Ties& ties = list[std::size_t(t * in.groups() + g) % 64];
        tie_group(in, t, g * 128, std::min<std::int64_t>(128, in.hidden() - g * 128), ties, ties.top);
      }
    } else {
      const bool own = p.quant.kind == QuantKind::token_channel;
      const Ties& ties = list[std::size_t(given ? 0 : own ? t : number)];
      tie_group(in, t, 0, in.hidden(), ties, given ? 1.75f : ties.top);
    }
  }
  if (p.quant.block()) fill_constants(in);
  // the row's own peak makes the gate where the constants would move its scale
  p.quant.block() ? in.gates_from(in.hidden() - 2, 64) : in.gates_from(127, 448);
  select_up(in, 1);
  in.identity_w2();
}

void fill_tiny(ProbeInputs& in, int number) {
  const Problem& p = in.problem();
  constexpr float kSizes[] = {0x1p-37f, 0x1p-28f, 0x1p-20f, 0x1p-11f, 0};
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    for (std::int64_t k = 0; k < in.hidden(); ++k) {
      const std::int64_t number_of_group = p.quant.tensor() ? 4 * number : p.quant.block() ? t + k / 128 : t;
      const float size = kSizes[number_of_group % 5] * 1.5f;
      const float x = size * float(129 + in.random.below(126)) / 256;
      in.set_x(t, k, k % 128 == 127 ? size : x * in.random.sign());
    }
  }
  in.set_all_scales("w13_scale", p.quant.block() ? 0x1p24f : 0x1p37f);
  if (p.quant.block()) {
    fill_constants(in);
    for (int e = 0; e < in.experts(); ++e)
      for (std::int64_t n = 0; n < p.shape.up_rows(); n += 128) in.set_w13_scale(e, n, in.hidden() - 1, 1);
  }
  p.quant.block() ? in.gates_from(in.hidden() - 2, 64) : in.gates_from(127, 448);
  select_up(in, 1);
  in.identity_w2();
}

void fill_gates(ProbeInputs& in) {
  fill_exact_rows(in);
  in.set_static_scales(kExactScale, 0.1171875f);
  const MoeShape& s = in.problem().shape;
  const float factor = gate_factor(s);
  const auto data = int(std::max<std::int64_t>(in.hidden() - 128, 127));
  for (int e = 0; e < in.experts(); ++e) {
    for (std::int64_t j = 0; j < in.inner(); ++j) {
      if (s.gated()) in.set_w13(e, j, in.random.below(data), factor * float(7 + in.random.below(3)) / 8);
      in.set_w13(e, in.up_row(j), in.random.below(data),
                 float(8 + in.random.below(8)) / 8 * in.random.sign());
    }
  }
  in.identity_w2();
}

void fill_combine(ProbeInputs& in) {
  fill_exact_rows(in);
  in.gates_from(in.hidden() - 2, 64);
  select_up(in, 1);
  const int k = in.problem().shape.top_k;
  const auto size_of_expert = [](int e) { return float(9 + 2 * (e / 2 % 4)) / 8; };
  for (int e = 0; e < in.experts(); ++e)
    for (std::int64_t h = 0; h < in.hidden(); ++h) {
      const float any = float(8 + in.random.below(8)) / 8 * in.random.sign();
      in.set_w2(e, h, h % in.inner(), h % 4 == 3 ? any : e % 2 == 0 ? size_of_expert(e) : -size_of_expert(e));
    }
  const int first = in.problem().rank * in.problem().shape.local_experts(), last = k > 2 ? 2 : k - 1;
  for (std::int64_t t = 0; t < in.tokens(); ++t) {
    const auto ids = in.ids().subspan(std::size_t(t * k), std::size_t(k));
    const auto weights = in.weights().subspan(std::size_t(t * k), std::size_t(k));
    for (float& w : weights) w = 0x1p-24f * (1 + float(in.random.below(1 << 23)) * 0x1p-23f);
    weights[0] = 0.25f + float(in.random.below(1 << 22)) * 0x1p-23f;
    // slots 0 and `last` cancel: an even expert and an odd one
    const auto put = [&](int slot, int parity) {
      const auto found =
          std::find_if(ids.begin() + slot, ids.end(), [&](int id) { return (id - first) % 2 == parity; });
      if (found != ids.end()) std::swap(*found, ids[std::size_t(slot)]);
    };
    put(0, 0);
    if (last == 2 && (ids[1] - first) % 2 != 0) std::swap(ids[1], ids[2]);
    weights[std::size_t(last)] =
        weights[0] * size_of_expert(ids[0] - first) / size_of_expert(ids[std::size_t(last)] - first);
  }
}

void fill_ordinary(ProbeInputs& in) {
  Routing routing{in.tokens(), in.problem().shape.top_k, {}, {}};
  for (float& w : in.weights()) w = 0.125f + float(in.random.below(1 << 21)) * 0x1p-23f;
  routing.ids.assign(in.ids().begin(), in.ids().end());
  routing.weights.assign(in.weights().begin(), in.weights().end());
  in.tensors = make_inputs(in.problem(), {}, routing, 1);
  for (Tensor& t : in.tensors.all()) t.generated.reset();
}

}  // namespace moe::harness
