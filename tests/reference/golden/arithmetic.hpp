// Which arithmetics do golden records cover, what does the reference say of a tile, and how are a card's
// outputs stored? An arithmetic is an instruction with its types; a form is one way to issue it (wgmma: N,
// and A from shared memory or registers), which must not change a bit.
#pragma once
#include <cstring>
#include <string>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/reference/golden/tile_inputs.hpp"

namespace moe::test {

using reference::Fp8;
using reference::Level;

enum class Unit { wgmma, mma_fp8, mma_f16 };
struct Arithmetic {
  Unit unit;
  Fp8 a, b;  // not of mma_f16
  AccumulatorFormat result;
};
inline constexpr int kArithmetics = 18;
/// wgmma, then mma.sync on FP8: the four pairings in f32, then in f16; then mma.sync on f16 in f32 and f16.
constexpr Arithmetic arithmetic(int i) {
  constexpr auto f32 = AccumulatorFormat::f32, f16 = AccumulatorFormat::f16;
  if (i >= 16) return {Unit::mma_f16, {}, {}, i == 16 ? f32 : f16};
  return {i < 8 ? Unit::wgmma : Unit::mma_fp8, Fp8(i / 2 % 2), Fp8(i % 2), i / 4 % 2 ? f16 : f32};
}
inline std::string name(const Arithmetic& x) {
  const auto type = [&](Fp8 f) { return x.unit == Unit::mma_f16 ? "f16" : f == Fp8::e4m3 ? "e4m3" : "e5m2"; };
  return std::string(type(x.a)) + "_" + type(x.b) + (x.result == AccumulatorFormat::f32 ? "_f32" : "_f16");
}
inline TileFormat tile_format(int i) {
  const Arithmetic x = arithmetic(i);
  const bool wide = x.unit == Unit::mma_f16;
  return {wide ? reference::kF16 : format_of(x.a), wide ? reference::kF16 : format_of(x.b),
          format_of(x.result), std::uint32_t(i)};
}

/// Bytes of one output, and outputs as a card stores them.
constexpr int result_bytes(const Arithmetic& x) { return x.result == AccumulatorFormat::f32 ? 4 : 2; }
inline std::vector<std::uint8_t> as_stored(const Arithmetic& x, const std::vector<std::uint32_t>& patterns) {
  const auto width = std::size_t(result_bytes(x));
  std::vector<std::uint8_t> bytes(patterns.size() * width);
  for (std::size_t i = 0; i < patterns.size(); ++i) std::memcpy(&bytes[i * width], &patterns[i], width);
  return bytes;
}
inline std::uint32_t stored(const Arithmetic& x, const std::uint8_t* bytes, std::size_t i) {
  std::uint32_t pattern = 0;
  std::memcpy(&pattern, bytes + i * std::size_t(result_bytes(x)), std::size_t(result_bytes(x)));
  return pattern;
}

// ---- what the reference says: patterns [64][256]

/// Element by element.
inline std::vector<std::uint32_t> plain_outputs(const Arithmetic& x, const Tile& tile) {
  std::vector<std::uint32_t> d(std::size_t(kRows) * kColumns);
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kColumns; ++n) {
      const std::uint8_t *a = &tile.a[m * kRowBytes], *b = &tile.b[n * kRowBytes];
      std::uint32_t& y = d[m * kColumns + n];
      const std::uint32_t c = tile.c.empty() ? 0 : tile.c[m * kColumns + n];
      std::uint16_t u[16], v[16];
      std::memcpy(u, a, sizeof u);
      std::memcpy(v, b, sizeof v);
      if (x.unit == Unit::wgmma) y = wgmma_k32(x.a, a, x.b, b, x.result, c);
      if (x.unit == Unit::mma_fp8) y = mma_sync_fp8_k32(x.a, a, x.b, b, x.result, c);
      if (x.unit == Unit::mma_f16) y = reference::hmma_k16(u, v, x.result, c);
    }
  return d;
}

struct Aligned {
  explicit Aligned(std::size_t n) : memory(n + 64), data(memory.data()) {
    data += (64 - reinterpret_cast<std::uintptr_t>(data) % 64) % 64;
  }
  std::vector<std::byte> memory;
  std::byte* data;
};

/// One k32 block by the chain of a level, on top of acc[64][256].
template <class T>
void run_chain(const reference::ChainKernel& kernel, const Arithmetic& x, const Tile& tile, T* acc) {
  Aligned rows(kRows * kernel.row_block), group(kernel.group_block);
  kernel.pack_rows(x.a, tile.a.data(), kRowBytes, kRows, kRowBytes, rows.data);
  for (int n = 0; n < kColumns; n += reference::kGroupColumns) {
    kernel.pack_group(x.b, &tile.b[n * kRowBytes], kRowBytes, reference::kGroupColumns, kRowBytes,
                      group.data);
    const auto stride = std::ptrdiff_t(kernel.row_block);
    if constexpr (sizeof(T) == 4) kernel.run(rows.data, stride, kRows, group.data, 1, acc + n, kColumns);
    if constexpr (sizeof(T) == 2) kernel.run_f16(rows.data, stride, kRows, group.data, 1, acc + n, kColumns);
  }
}

/// Whether `level` has code of its own for x: f16 results of mma.sync on f16 exist in plain code only.
inline bool has_level(const Arithmetic& x, Level level) {
  return level == Level::plain || x.unit != Unit::mma_f16 || x.result == AccumulatorFormat::f32;
}

inline std::vector<std::uint32_t> mma_f16_outputs(const Tile& tile, std::vector<float> c, Level level) {
  std::vector<std::uint32_t> d(c.size());
  for (int m = 0; m < kRows; m += 16)
    for (int n = 0; n < kColumns; n += 8) {
      std::uint16_t a[256], b[128];
      float block[128];
      std::memcpy(a, &tile.a[m * kRowBytes], sizeof a);
      std::memcpy(b, &tile.b[n * kRowBytes], sizeof b);
      for (int i = 0; i < 128; ++i) block[i] = c[(m + i / 8) * kColumns + n + i % 8];
      mma_step(level).mma_f16(a, b, block, block);
      for (int i = 0; i < 128; ++i) d[(m + i / 8) * kColumns + n + i % 8] = float_bits(block[i]);
    }
  return d;
}

/// By the level's fast code, or element by element where it has none.
inline std::vector<std::uint32_t> outputs(const Arithmetic& x, const Tile& tile, Level level) {
  using reference::ChainKind;
  if (!has_level(x, level) || level == Level::plain) return plain_outputs(x, tile);
  const std::size_t n = std::size_t(kRows) * kColumns;
  std::vector<std::uint32_t> c = tile.c.empty() ? std::vector<std::uint32_t>(n) : tile.c;
  const ChainKind kind = x.unit == Unit::wgmma ? ChainKind::wgmma : ChainKind::hmma_interleaved4;
  if (x.result == AccumulatorFormat::f16) {
    std::vector<std::uint16_t> acc(n);
    if (x.unit == Unit::wgmma) acc.assign(c.begin(), c.end());
    run_chain(chain_kernel(kind, level), x, tile, acc.data());
    if (x.unit == Unit::wgmma) return {acc.begin(), acc.end()};
    for (std::size_t i = 0; i < n; ++i) c[i] = reference::add_f16(c[i], acc[i]);
    return c;
  }
  std::vector<float> acc(n);
  if (x.unit != Unit::mma_fp8) std::transform(c.begin(), c.end(), acc.begin(), bits_float);
  if (x.unit == Unit::mma_f16) return mma_f16_outputs(tile, std::move(acc), level);
  run_chain(chain_kernel(kind, level), x, tile, acc.data());
  if (x.unit == Unit::mma_fp8)  // two HMMA from zero, then one addition of c (instructions.hpp)
    for (std::size_t i = 0; i < n; ++i) {
      acc[i] += bits_float(c[i]);
      if (acc[i] != acc[i]) acc[i] = bits_float(0x7FFFFFFFu);
    }
  std::transform(acc.begin(), acc.end(), c.begin(), float_bits);
  return c;
}

// ---- what is stored

inline constexpr std::uint64_t kGoldenSeed = 20261130;
/// Outputs kept as they are: the first rows and columns of tile number 0 of each kind. Of all others a hash
/// is kept.
inline constexpr int kKeptRows = 32, kKeptColumns = 8;

/// FNV-1a, 64 bits.
struct Hash {
  std::uint64_t h = 0xCBF29CE484222325ull;
  void add(const std::uint8_t* bytes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) h = (h ^ bytes[i]) * 0x100000001B3ull;
  }
};
inline std::string text(std::uint64_t h) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string s;
  for (int shift = 60; shift >= 0; shift -= 4) s += kDigits[h >> shift & 15];
  return s;
}
/// Columns that an instruction of N columns covers.
constexpr int covered(int n) { return kColumns / n * n; }

/// All rows and the first `columns` columns of outputs [64][256].
inline std::uint64_t hash_outputs(const Arithmetic& x, const std::uint8_t* d, int columns) {
  Hash hash;
  const auto width = std::size_t(result_bytes(x));
  for (int m = 0; m < kRows; ++m)
    hash.add(d + std::size_t(m) * kColumns * width, std::size_t(columns) * width);
  return hash.h;
}
/// All tiles number 0: tells a changed draw from changed arithmetic.
inline std::uint64_t hash_inputs() {
  Hash hash;
  for (int i = 0; i < kArithmetics; ++i)
    for (int kind = 0; kind < kKinds; ++kind) {
      const Tile tile = draw_tile(kGoldenSeed, tile_format(i), Kind(kind), 0);
      hash.add(tile.a.data(), tile.a.size());
      hash.add(tile.b.data(), tile.b.size());
      const auto c = as_stored(arithmetic(i), tile.c);
      hash.add(c.data(), c.size());
    }
  return hash.h;
}

}  // namespace moe::test
