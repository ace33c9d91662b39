#include "harness/infer/gemm_probes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/candidates.hpp"
#include "harness/infer/probe_fill.hpp"
#include "harness/infer/probe_inputs.hpp"
#include "reference/operands.hpp"

namespace moe::harness {
namespace {

/// The inputs of a grouped GEMM with codes zero and scales one, written down by activation row and expert;
/// rows that no group owns stay as they were made.
class GemmInputs {
 public:
  GemmInputs(const Case& c, std::uint64_t seed);

  std::int64_t k() const { return w().dim(2); }
  std::int64_t n() const { return w().dim(1); }
  std::int64_t blocks() const { return (k() + kScaleBlock - 1) / kScaleBlock; }
  const QuantScheme& quant() const { return quant_; }
  const std::vector<int>& experts() const { return experts_; }      // with rows
  const std::vector<std::int64_t>& rows() const { return rows_; }   // of the activations, that are read
  std::int64_t some_row_of(int expert, std::int64_t number) const;  // an activation row it multiplies

  void set_a(std::int64_t row, std::int64_t k, float value);
  void set_w(int expert, std::int64_t column, std::int64_t k, float value);
  /// The scale that covers (row, k): of the block, the row or all.
  void set_a_scale(std::int64_t row, std::int64_t k, float scale);
  void set_w_scale(int expert, std::int64_t column, std::int64_t k, float scale);

  ProbeRandom random;
  TensorSet tensors;

 private:
  const Tensor& w() const { return tensors.at("w"); }

  QuantScheme quant_;
  std::vector<reference::GemmRow> all_;
  reference::CodeView view_;
  std::vector<std::int64_t> rows_;
  std::vector<int> experts_;
};

GemmInputs::GemmInputs(const Case& c, std::uint64_t seed)
    : random(seed),
      tensors(make_inputs(c.problem, c.choice, plain_routing(c.problem), 1)),
      quant_(c.problem.quant) {
  for (Tensor& t : tensors.all()) t.generated.reset();
  const reference::GroupedGemm gemm = reference::contract_gemm(c.problem, tensors);
  view_ = gemm.a;
  std::set<std::int64_t> rows;
  std::set<int> experts;
  for (const reference::GemmRow& r : gemm.rows) {
    if (r.expert < 0) continue;
    all_.push_back(r);
    rows.insert(r.act);
    experts.insert(r.expert);
  }
  rows_.assign(rows.begin(), rows.end());
  experts_.assign(experts.begin(), experts.end());
  const auto codes = tensors.at("a_codes").as<std::uint8_t>();
  for (const std::int64_t row : rows_) {
    std::fill_n(codes.begin() + row * k(), k(), std::uint8_t(0));
    for (std::int64_t b = 0; b < blocks(); ++b) set_a_scale(row, b * kScaleBlock, 1);
  }
  for (const int e : experts_) {
    std::memset(tensors.at("w").data() + e * n() * k(), 0, std::size_t(n() * k()));
    if (tensors.has("w_bias")) std::fill_n(tensors.at("w_bias").as<float>().begin() + e * n(), n(), 0.0f);
    for (std::int64_t column = 0; column < n(); ++column)
      for (std::int64_t b = 0; b < blocks(); ++b) set_w_scale(e, column, b * kScaleBlock, 1);
  }
}

std::int64_t GemmInputs::some_row_of(int expert, std::int64_t number) const {
  std::vector<std::int64_t> own;
  for (const reference::GemmRow& r : all_)
    if (r.expert == expert) own.push_back(r.act);
  return own[std::size_t(number) % own.size()];
}

void GemmInputs::set_a(std::int64_t row, std::int64_t at, float value) {
  tensors.at("a_codes").as<std::uint8_t>()[std::size_t(row * k() + at)] = encode_e4m3(value);
}
void GemmInputs::set_w(int expert, std::int64_t column, std::int64_t at, float value) {
  tensors.at("w").as<std::uint8_t>()[std::size_t((expert * n() + column) * k() + at)] = encode_e4m3(value);
}

void GemmInputs::set_a_scale(std::int64_t row, std::int64_t at, float scale) {
  std::int64_t place = at / kScaleBlock * view_.block_stride;
  if (view_.group_rows == 0)
    place += row * view_.row_stride;
  else
    place += row / view_.group_rows * view_.group_stride + row % view_.group_rows * view_.row_stride;
  tensors.at("a_scale").as<float>()[std::size_t(place)] = scale;
}
void GemmInputs::set_w_scale(int expert, std::int64_t column, std::int64_t at, float scale) {
  Tensor& t = tensors.at("w_scale");
  std::int64_t place = expert;
  if (quant_.block())
    place = (expert * t.dim(1) + column / kScaleBlock) * t.dim(2) + at / kScaleBlock;
  else if (!quant_.tensor())
    place = expert * t.dim(1) + column;
  t.as<float>()[std::size_t(place)] = scale;
}

/// A scale in [1, 2) with all 24 bits.
float odd_scale(ProbeRandom& random) { return 1 + float(random.below(1 << 22) * 2 + 1) * 0x1p-23f; }

/// Sums over one span each (a block, or all of K): codes of both halves are a permutation of each other, and
/// in every other column so are the weights, negated.
void fill_wide_sums(GemmInputs& in) {
  const std::int64_t length = in.quant().block() ? kScaleBlock : in.k(), spans = in.k() / length;
  const auto half = int(length / 2);
  const std::vector<int> order = permutation(half, in.random);
  for (const std::int64_t row : in.rows())
    for (std::int64_t s = 0; s < spans; ++s)
      for (int i = 0; i < half; ++i) {
        const float code = wide_value(in.random);
        in.set_a(row, s * length + i, code);
        in.set_a(row, s * length + half + order[std::size_t(i)], code);
      }
  for (const int e : in.experts())
    for (std::int64_t c = 0; c < in.n(); ++c)
      for (std::int64_t s = 0; s < spans; ++s) {
        const bool cancel = c % 2 == 1;
        if (cancel && c / 2 % spans != s) continue;  // one span alone: another's sum would hide its rest
        for (int i = 0; i < half; ++i) {
          const float w = wide_value(in.random);
          in.set_w(e, c, s * length + i, w);
          in.set_w(e, c, s * length + half + order[std::size_t(i)], cancel ? -w : wide_value(in.random));
        }
      }
}

/// block128: blocks 2 p and 2 p + 1 of a row have the same codes, the weights of the second are the negated
/// ones of the first, and the products of their scales are nearly the same: what is left is rounding.
void fill_block_orders(GemmInputs& in) {
  const std::int64_t pairs = in.blocks() / 2;
  std::vector<float> scale;  // of a block
  for (std::int64_t g = 0; g < 2 * pairs; ++g) scale.push_back(odd_scale(in.random));
  std::int64_t number = 0;
  for (const std::int64_t row : in.rows()) {
    const auto size = int(number++ % 3);
    for (std::int64_t g = 0; g < 2 * pairs; ++g)
      in.set_a_scale(row, g * kScaleBlock, std::ldexp(scale[std::size_t(g)], size));
    for (std::int64_t p = 0; p < pairs; ++p)
      for (int i = 0; i < kScaleBlock; ++i) {
        const float code = code_value(in.random) * in.random.sign();
        in.set_a(row, 2 * p * kScaleBlock + i, code);
        in.set_a(row, (2 * p + 1) * kScaleBlock + i, code);
      }
  }
  for (const int e : in.experts())
    for (std::int64_t c = 0; c < in.n(); ++c) {
      const std::int64_t g = (c / kScaleBlock + e) % pairs * 2;
      if (c % kScaleBlock == 0) {
        const float w = odd_scale(in.random), a0 = scale[std::size_t(g)], a1 = scale[std::size_t(g + 1)];
        in.set_w_scale(e, c, g * kScaleBlock, w);
        in.set_w_scale(e, c, (g + 1) * kScaleBlock, a0 * w / a1);
      }
      for (int i = 0; i < kScaleBlock; ++i) {
        const float w = code_value(in.random) * in.random.sign();
        in.set_w(e, c, g * kScaleBlock + i, w);
        in.set_w(e, c, (g + 1) * kScaleBlock + i, -w);
      }
    }
}

/// Two products a sum, both exact in every accumulator, and so is 256 + 3.5 m: a quarter or three quarters of
/// the way from one bf16 value to the next.
void fill_output_rounding(GemmInputs& in) {
  for (const std::int64_t row : in.rows()) {
    in.set_a(row, 0, 256);
    in.set_a(row, 1, 448);
  }
  for (const int e : in.experts())
    for (std::int64_t c = 0; c < in.n(); ++c) {
      const float sign = in.random.sign();
      in.set_w(e, c, 0, sign);
      in.set_w(e, c, 1, sign * float(2 * (c % 4) + 1) / 128);
    }
}

/// A middle between two bf16 values in [1, 2).
double some_middle(ProbeRandom& random) { return double(257 + 2 * random.below(127)) / 256; }

/// One scale a row and one a column: column c of expert e straddles a middle in one of its rows.
void fill_channel_orders(GemmInputs& in) {
  std::vector<float> a(std::size_t(in.rows().back() + 1), 1.0f);
  for (const std::int64_t row : in.rows()) {
    a[std::size_t(row)] = odd_scale(in.random);
    in.set_a_scale(row, 0, a[std::size_t(row)]);
    in.set_a(row, 0, 1.5f);
  }
  for (const int e : in.experts())
    for (std::int64_t c = 0; c < in.n(); ++c) {
      const float scale = a[std::size_t(in.some_row_of(e, c / 3))];
      const float w = telling_scale(in.random, 1.5f, scale, some_middle(in.random), int(c));
      in.set_w(e, c, 0, 1);
      in.set_w_scale(e, c, 0, w != 0 ? w : 1);
    }
}

/// One scale for all rows and one an expert: its product straddles a middle; `number` varies which orders
/// that tells apart.
void fill_tensor_orders(GemmInputs& in, int number) {
  const float a = odd_scale(in.random);
  in.set_a_scale(in.rows().front(), 0, a);
  for (const std::int64_t row : in.rows()) in.set_a(row, 0, 1);
  for (const int e : in.experts()) {
    float code = 1, w = 0;
    for (int i = 0; i < 64 && w == 0; ++i) {
      code = code_value(in.random);
      w = telling_scale(in.random, code, a, some_middle(in.random), number + e);
    }
    in.set_w_scale(e, 0, 0, w != 0 ? w : 1);
    for (std::int64_t c = 0; c < in.n(); ++c) in.set_w(e, c, 0, code);
  }
}

}  // namespace

std::vector<Probe> make_gemm_probes(const Case& c) {
  const QuantScheme& quant = c.problem.quant;
  std::vector<Probe> probes;
  const auto add = [&](const std::string& name, const std::function<void(GemmInputs&)>& fill) {
    GemmInputs in(c, 0x51ED + probes.size());
    fill(in);
    probes.push_back({name, c, std::move(in.tensors), false});
  };
  add("chains", fill_wide_sums);
  const bool exact = exact_scales(c.problem);
  if (!exact && quant.tensor())
    for (int i = 0; i < 3; ++i)
      add("orders " + std::to_string(i + 1), [i](GemmInputs& in) { fill_tensor_orders(in, i); });
  else if (!exact && !quant.block())
    add("orders", fill_channel_orders);
  else if (!exact)
    add("orders", [](GemmInputs& in) {
      if (in.blocks() > 1) fill_block_orders(in);
    });
  add("rounding", fill_output_rounding);
  probes.push_back({"ordinary", c, make_inputs(c.problem, c.choice, plain_routing(c.problem), 1), false});
  for (Tensor& t : probes.back().inputs.all()) t.generated.reset();
  return probes;
}

}  // namespace moe::harness
