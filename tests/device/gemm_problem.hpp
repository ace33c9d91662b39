// Grouped GEMM problems in host memory, what must come out of them, and one launch on any Machine. Test code.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/kernels/gemm_variant.hpp"
#include "device/machine.hpp"
#include "fixtures/problem/mma_step.hpp"
#include "fixtures/problem/number_formats.hpp"

namespace moe::device::test {

constexpr int round_up_div(int a, int b) { return (a + b - 1) / b; }
using Random = std::mt19937_64;

inline int draw(Random& random, int low, int high) {
  return low + int(random() % std::uint64_t(high - low + 1));
}
template <class T>
T pick(Random& random, std::initializer_list<T> from) {
  return from.begin()[random() % from.size()];
}

/// A grouped GEMM in host memory; sorted rows as the plan kernel leaves them.
struct Gemm {
  ScaleKind scales = ScaleKind::block;
  std::vector<int> rows;  // per expert
  int n = 128, k = 128;
  bool scale_per_tensor = false;  // flat: one scale a tensor instead of one a row and a column
  std::vector<std::int32_t> row_start;
  int sorted_rows = 0;  // of the token matrix, padding included
  std::vector<std::uint8_t> tokens, weights;
  std::vector<float> a_scale, w_scale, bias;  // bias may be empty
  int a_ld = 0;                               // block: rows of a_scale's lines
  std::vector<std::int32_t> out_row;          // may be empty
  int out_rows = 0, ld_out = 0;

  int experts() const { return int(rows.size()); }
  int k_blocks() const { return round_up_div(k, 128); }
  int panels() const { return round_up_div(n, 128); }
  float scale_of_row(int row, int kb) const {
    return scales == ScaleKind::block ? a_scale[std::size_t(kb) * a_ld + row]
                                      : a_scale[scale_per_tensor ? 0 : row];
  }
  float scale_of_column(int e, int column, int kb) const {
    if (scales == ScaleKind::block)
      return w_scale[(std::size_t(e) * panels() + column / 128) * k_blocks() + kb];
    return w_scale[scale_per_tensor ? e : e * n + column];
  }
};

/// Where every value comes from: codes and scales as functions of a random source.
struct DataMode {
  std::function<std::uint8_t(Random&)> code;
  std::function<float(Random&)> scale;
};
/// Integers -2..2 and scales 1/2, 1, 2: every order of summation is exact, in wgmma's 13 fraction bits too.
inline const DataMode kExact{[](Random& r) { return encode_e4m3(float(draw(r, -2, 2))); },
                             [](Random& r) {
                               return pick(r, {0.5f, 1.0f, 2.0f});
                             }};
inline const DataMode kRandom{
    [](Random& r) { return std::uint8_t(draw(r, 0, 0x7E) | draw(r, 0, 1) << 7); },
    [](Random& r) { return std::uniform_real_distribution<float>(0.001f, 1.0f)(r); }};

/// Rows that no expert owns hold NaN codes and NaN scales: nothing of them may reach an output.
inline Gemm make_gemm(Random& random, ScaleKind scales, std::vector<int> rows, int n, int k,
                      const DataMode& mode, bool scale_per_tensor = false) {
  Gemm g;
  g.scales = scales, g.rows = std::move(rows), g.n = n, g.k = k;
  for (int r : g.rows) {
    g.row_start.push_back(g.sorted_rows);
    g.sorted_rows += round_up_div(r, 8) * 8;
  }
  g.scale_per_tensor = scales == ScaleKind::flat && scale_per_tensor;
  g.tokens.assign(std::size_t(g.sorted_rows) * k, 0x7F);
  g.a_ld = g.sorted_rows + 128;
  const std::size_t a_scales = scales == ScaleKind::block ? std::size_t(g.a_ld) * g.k_blocks()
                               : g.scale_per_tensor       ? 1
                                                          : std::size_t(g.sorted_rows);
  g.a_scale.assign(a_scales, bits_float(0x7FC00000));
  if (scales == ScaleKind::flat && g.scale_per_tensor) g.a_scale[0] = mode.scale(random);
  for (int e = 0; e < g.experts(); ++e)
    for (int row = g.row_start[e]; row < g.row_start[e] + g.rows[e]; ++row) {
      for (int c = 0; c < k; ++c) g.tokens[std::size_t(row) * k + c] = mode.code(random);
      if (scales == ScaleKind::block)
        for (int kb = 0; kb < g.k_blocks(); ++kb)
          g.a_scale[std::size_t(kb) * g.a_ld + row] = mode.scale(random);
      else if (!g.scale_per_tensor)
        g.a_scale[row] = mode.scale(random);
    }
  g.weights.resize(std::size_t(g.experts()) * n * k);
  for (auto& code : g.weights) code = mode.code(random);
  g.w_scale.resize(scales == ScaleKind::block ? std::size_t(g.experts()) * g.panels() * g.k_blocks()
                   : g.scale_per_tensor       ? g.experts()
                                              : std::size_t(g.experts()) * n);
  for (auto& s : g.w_scale) s = mode.scale(random);
  g.out_rows = g.sorted_rows, g.ld_out = n;
  return g;
}

/// A bias, a row map that skips some rows, and an output with a stride.
inline void add_extras(Random& random, Gemm& g) {
  if (draw(random, 0, 1)) {
    g.bias.resize(std::size_t(g.experts()) * g.n);
    for (auto& b : g.bias) b = float(draw(random, -8, 8));
  }
  if (draw(random, 0, 1)) g.ld_out = g.n + draw(random, 0, 9);
  if (!draw(random, 0, 1)) return;
  g.out_rows = g.sorted_rows + 3;
  std::vector<std::int32_t> places(std::size_t(g.out_rows));
  for (int i = 0; i < g.out_rows; ++i) places[i] = i;
  std::shuffle(places.begin(), places.end(), random);
  places.resize(std::size_t(g.sorted_rows));
  for (auto& to : places)
    if (draw(random, 0, 9) == 0) to = -1;
  g.out_row = places;
}

/// Calls body(expert, sorted row, row of out) for every row that must be written.
template <class Body>
void for_each_row(const Gemm& g, Body body) {
  for (int e = 0; e < g.experts(); ++e)
    for (int row = g.row_start[e]; row < g.row_start[e] + g.rows[e]; ++row) {
      const int to = g.out_row.empty() ? row : g.out_row[row];
      if (to >= 0) body(e, row, to);
    }
}

inline constexpr std::uint16_t kPoison = 0xFFFF;

/// out with value(expert, sorted row, column) rounded to bf16 where it must be written, poison elsewhere.
template <class Value>
std::vector<std::uint16_t> expected(const Gemm& g, Value value) {
  std::vector<std::uint16_t> out(std::size_t(g.out_rows) * g.ld_out, kPoison);
  for_each_row(g, [&](int e, int row, int to) {
    for (int column = 0; column < g.n; ++column)
      out[std::size_t(to) * g.ld_out + column] = encode_bf16(value(e, row, column));
  });
  return out;
}

/// The product in double, for kExact data: no order of summation can round it.
inline std::vector<std::uint16_t> expected_exact(const Gemm& g) {
  return expected(g, [&](int e, int row, int column) {
    double sum = g.bias.empty() ? 0.0 : g.bias[std::size_t(e) * g.n + column];
    for (int c = 0; c < g.k; ++c)
      sum += double(decode_e4m3(g.tokens[std::size_t(row) * g.k + c])) *
             decode_e4m3(g.weights[(std::size_t(e) * g.n + column) * g.k + c]) *
             g.scale_of_row(row, c / 128) * g.scale_of_column(e, column, c / 128);
    return float(sum);
  });
}

/// One code, 0 beyond K.
inline std::uint8_t code_at(const std::vector<std::uint8_t>& codes, std::int64_t row, int k, int c) {
  return c < k ? codes[std::size_t(row) * k + c] : 0;
}

/// The 128-long chain from zero of k-block kb, as 32-wide wgmma or 16-wide f16 mma steps of `arithmetic`.
inline float chain(const Gemm& g, const MmaStep& arithmetic, bool mma, std::int64_t row, std::int64_t weight,
                   int kb) {
  float d[64 * 8] = {};
  for (int first = 128 * kb; first < 128 * (kb + 1); first += mma ? 16 : 32) {
    if (mma) {
      std::uint16_t a[16 * 16] = {}, b[8 * 16] = {};
      for (int i = 0; i < 16; ++i) {
        a[i] =
            __builtin_bit_cast(std::uint16_t, _Float16(decode_e4m3(code_at(g.tokens, row, g.k, first + i))));
        b[i] = __builtin_bit_cast(std::uint16_t,
                                  _Float16(decode_e4m3(code_at(g.weights, weight, g.k, first + i))));
      }
      const float c[16 * 8] = {d[0]};
      arithmetic.mma_f16(a, b, c, d);
    } else {
      std::uint8_t a[64 * 32] = {}, b[8 * 32] = {};
      for (int i = 0; i < 32; ++i) {
        a[i] = code_at(g.tokens, row, g.k, first + i);
        b[i] = code_at(g.weights, weight, g.k, first + i);
      }
      arithmetic.wgmma_e4m3(a, b, d, 8, first == 128 * kb);
    }
  }
  return d[0];
}

/// One element before the bias, every rounding as the kernels' contracts state it.
inline float scaled_sum(const Gemm& g, const MmaStep& arithmetic, bool mma, int e, int row, int column) {
  const bool block = g.scales == ScaleKind::block;
  float acc = 0.0f;
  for (int kb = 0; kb < g.k_blocks(); ++kb) {
    const float part = chain(g, arithmetic, mma, row, std::int64_t(e) * g.n + column, kb);
    acc =
        block ? std::fma(g.scale_of_row(row, kb) * g.scale_of_column(e, column, kb), part, acc) : acc + part;
  }
  return block ? acc : acc * g.scale_of_row(row, 0) * g.scale_of_column(e, column, 0);
}

inline std::vector<std::uint16_t> expected_bits(const Gemm& g, const MmaStep& arithmetic, bool mma) {
  return expected(g, [&](int e, int row, int column) {
    const float sum = scaled_sum(g, arithmetic, mma, e, row, column);
    return g.bias.empty() ? sum : sum + g.bias[std::size_t(e) * g.n + column];
  });
}

/// With at most one row an expert: a bias that cancels all but the last 8 bits of every fp32 sum, so that
/// bf16 shows them.
inline void bias_away_leading_bits(Gemm& g, const MmaStep& arithmetic, bool mma) {
  g.bias.assign(std::size_t(g.experts()) * g.n, 0.0f);
  for_each_row(g, [&](int e, int row, int) {
    for (int column = 0; column < g.n; ++column)
      g.bias[std::size_t(e) * g.n + column] =
          -bits_float(float_bits(scaled_sum(g, arithmetic, mma, e, row, column)) & ~0xFFu);
  });
}

/// Counts of a launch: every tile pays full boxes and whole instructions.
inline Counts expected_counts(const Gemm& g, const GemmConfig& c, int grid) {
  Counts counts;
  counts.ctas = grid;
  std::int64_t k_blocks = 0;  // of all tiles
  for (int r : g.rows)
    k_blocks += std::int64_t(round_up_div(r, c.block_m)) * round_up_div(g.n, c.block_n) * g.k_blocks();
  const bool block = c.scales == ScaleKind::block;
  counts.tma_loads = k_blocks * (block ? 3 : 2);
  counts.tma_load_bytes = k_blocks * (c.block_n * 128 + c.block_m * 128 + (block ? 4 * c.block_m : 0));
  if (k_blocks == 0) return counts;
  if (c.kind == GemmKind::normal_mma)
    counts.mma = k_blocks * 8 * (c.block_m / 16) * (c.block_n / 8);
  else if (c.kind == GemmKind::swap_ab)
    counts.wgmma[c.block_m] = k_blocks * c.block_n / 16;
  else
    counts.wgmma[c.block_m == 64 ? 64 : 128] = k_blocks * c.block_n / 16;
  return counts;
}

template <class T>
T* put(Machine& machine, const std::vector<T>& values, const char* name) {
  if (values.empty()) return nullptr;
  const Address a = machine.allocate(values.size() * sizeof(T), BufferUse::input, name);
  machine.upload(a, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<T*>(a);
}

struct Outcome {
  std::vector<std::uint16_t> out;
  std::vector<std::string> reports;
  Counts counts;
  bool counted = false;
  Address tokens = 0, weights = 0, out_at = 0;  // where they lay
};

/// `config` is what the kernel `variant` of the machine computes a tile as.
inline Outcome run(Machine& machine, int variant, const GemmConfig& config, const Gemm& g, int grid) {
  std::vector<std::int32_t> block_start{0};
  for (int r : g.rows) block_start.push_back(block_start.back() + round_up_div(r, config.block_m));
  GroupedGemmParams p{};
  Outcome outcome;
  outcome.tokens = Address(put(machine, g.tokens, "tokens"));
  outcome.weights = Address(put(machine, g.weights, "weights"));
  p.tokens = machine.tensor_map(outcome.tokens, g.sorted_rows, g.k, g.k, config.block_m);
  p.weights = machine.tensor_map(outcome.weights, std::uint64_t(g.experts()) * g.n, g.k, g.k,
                                 unsigned(config.block_n));
  p.row_start = put(machine, g.row_start, "row_start");
  p.rows = put(machine, std::vector<std::int32_t>(g.rows.begin(), g.rows.end()), "rows");
  p.block_start = put(machine, block_start, "block_start");
  p.a_scale = put(machine, g.a_scale, "a_scale");
  p.w_scale = put(machine, g.w_scale, "w_scale");
  p.bias = put(machine, g.bias, "bias");
  p.out_row = put(machine, g.out_row, "out_row");
  outcome.out.resize(std::size_t(g.out_rows) * g.ld_out);
  const std::size_t out_bytes = outcome.out.size() * 2;
  const Address out = outcome.out_at = machine.allocate(out_bytes, BufferUse::output, "out");
  p.out = reinterpret_cast<std::uint16_t*>(out);
  p.n = g.n, p.k = g.k, p.experts = g.experts(), p.ld_out = g.ld_out;
  p.early_k_blocks = int(g.out_rows % 20);
  p.a_scale_ld = g.scales == ScaleKind::block ? g.a_ld : g.scale_per_tensor ? 0 : 1;
  p.w_scale_expert = g.scale_per_tensor ? 1 : g.n;
  p.w_scale_column = g.scale_per_tensor ? 0 : 1;
  launch(machine, variant,
         {unsigned(grid), unsigned(config.threads()), std::size_t(config.shared_bytes()), false}, p);
  machine.synchronize();
  machine.download(outcome.out.data(), out, out_bytes);
  outcome.reports = machine.take_reports();
  outcome.counted = machine.take_counts(outcome.counts);
  machine.release_all();
  return outcome;
}
inline Outcome run(Machine& machine, int variant, const Gemm& g, int grid) {
  return run(machine, variant, kVariants[variant].gemm, g, grid);
}

}  // namespace moe::device::test
