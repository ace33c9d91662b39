// Is every fast path equal to the plain one, to the bit?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <memory>

#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/reference/tensor_core_draw.hpp"

namespace moe::reference {
namespace {

std::vector<Level> fast_levels() {
  std::vector<Level> levels;
  for (Level level : {Level::avx2, Level::avx512})
    if (available(level)) levels.push_back(level);
  return levels;
}

struct Packed {
  std::unique_ptr<std::byte[]> memory;
  std::byte* data;
  explicit Packed(std::size_t n) : memory(new std::byte[n + 64]), data(memory.get()) {
    data += (64 - reinterpret_cast<std::uintptr_t>(data) % 64) % 64;
  }
};

template <class T>
bool same_bytes(const std::vector<T>& x, const std::vector<T>& y) {
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

// Catches a wrong lane, a wrong special case, a store beyond d in the instruction the emulated SM calls.
RC_GTEST_PROP(TensorCoreLevels, WgmmaEqualsPlain, (std::uint64_t seed)) {
  draw::Rng g(seed);
  // up to the widest instruction now and then: the plain level takes its time
  const int n = 8 * int(1 + g() % (g() % 16 ? 8 : 32));
  const int ka = int(g() % draw::kKinds), kb = int(g() % draw::kKinds);
  const bool zero_d = g() % 4 == 0;
  const auto a = draw::codes(g, Fp8::e4m3, ka, 64 * 32),
             b = draw::codes(g, Fp8::e4m3, kb, std::size_t(n) * 32);
  std::vector<float> d(64 * std::size_t(n) + 16, 7.0f);
  for (int i = 0; i < 64 * n; ++i) d[i] = draw::accumulator(g);
  auto plain = d;
  for (int m = 0; m < 64; ++m)
    for (int j = 0; j < n; ++j) {
      const std::uint32_t c = zero_d ? 0u : float_bits(d[m * n + j]);
      plain[m * n + j] =
          bits_float(wgmma_k32(Fp8::e4m3, &a[m * 32], Fp8::e4m3, &b[j * 32], AccumulatorFormat::f32, c));
    }
  for (Level level : fast_levels()) {
    auto fast = d;
    mma_step(level).wgmma_e4m3(a.data(), b.data(), fast.data(), n, zero_d);
    RC_ASSERT(same_bytes(fast, plain));
  }
}

// Catches the sum of 17 wide terms leaving 32 bits, and swapped rows and columns.
RC_GTEST_PROP(TensorCoreLevels, MmaF16EqualsPlain, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const int kind = int(g() % 7);
  const bool one_sign = g() % 2;
  std::vector<std::uint16_t> a(256), b(128);
  for (auto& x : a) x = draw::f16(g, kind) & (one_sign ? 0x7FFF : 0xFFFF);
  for (auto& x : b) x = draw::f16(g, kind) & (one_sign ? 0x7FFF : 0xFFFF);
  std::vector<float> c(128), plain(128);
  for (auto& x : c) x = draw::accumulator(g);
  mma_step(Level::plain).mma_f16(a.data(), b.data(), c.data(), plain.data());
  for (Level level : fast_levels()) {
    std::vector<float> fast(128), in_place = c;
    mma_step(level).mma_f16(a.data(), b.data(), c.data(), fast.data());
    RC_ASSERT(same_bytes(fast, plain));
    mma_step(level).mma_f16(a.data(), b.data(), in_place.data(), in_place.data());
    RC_ASSERT(same_bytes(in_place, plain));
  }
}

struct Chain {
  Fp8 fa, fb;
  int rows, columns, k;
  std::vector<std::uint8_t> a, b;
};
Chain draw_chain(draw::Rng& g) {
  // whole k32 blocks are packed by other code than the tail
  const int k = g() % 2 ? int(1 + g() % 130) : kBlockK * int(1 + g() % 5);
  Chain c{Fp8(g() % 2), Fp8(g() % 2), int(1 + g() % 5), int(1 + g() % 16), k, {}, {}};
  // one step may be nasty, the others ordinary: results of long chains are then not all NaN
  c.a = draw::codes(g, c.fa, int(g() % 2), std::size_t(c.rows) * c.k);
  c.b = draw::codes(g, c.fb, int(g() % 2), std::size_t(c.columns) * c.k);
  const int kind = int(g() % draw::kKinds), k0 = (c.k - 1) / 32 * 32;
  for (int r = 0; r < c.rows; ++r)
    for (int k = k0; k < c.k; ++k) c.a[r * c.k + k] = draw::code(g, c.fa, kind);
  return c;
}

template <class T>
std::vector<T> run_chain(const ChainKernel& kernel, const Chain& c, std::vector<T> acc) {
  const int blocks = k_blocks(c.k);
  Packed rows(std::size_t(c.rows) * blocks * kernel.row_block),
      group(std::size_t(blocks) * kernel.group_block);
  kernel.pack_rows(c.fa, c.a.data(), c.k, c.rows, c.k, rows.data);
  kernel.pack_group(c.fb, c.b.data(), c.k, c.columns, c.k, group.data);
  const auto stride = std::ptrdiff_t(blocks * kernel.row_block);
  if constexpr (sizeof(T) == 4)
    kernel.run(rows.data, stride, c.rows, group.data, blocks, acc.data(), kGroupColumns);
  else
    kernel.run_f16(rows.data, stride, c.rows, group.data, blocks, acc.data(), kGroupColumns);
  return acc;
}

// Catches a wrong operand order, a wrong tail, a wrong format in the long chains (f32 accumulator, all
// instructions).
RC_GTEST_PROP(TensorCoreLevels, ChainsEqualPlain, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const Chain c = draw_chain(g);
  std::vector<float> acc(std::size_t(c.rows) * kGroupColumns);
  if (g() % 2)
    for (auto& x : acc) x = draw::accumulator(g);
  for (ChainKind kind : {ChainKind::wgmma, ChainKind::hmma_contiguous, ChainKind::hmma_interleaved4}) {
    const auto plain = run_chain(chain_kernel(kind, Level::plain), c, acc);
    for (Level level : fast_levels())
      RC_ASSERT(same_bytes(run_chain(chain_kernel(kind, level), c, acc), plain));
  }
}

/// Operands of an f16 accumulator: also such that a sum is of the size of the smallest f16, or overflows.
Chain draw_f16_chain(draw::Rng& g) {
  Chain c = draw_chain(g);
  if (g() % 3 == 0) return c;
  const int kinds[] = {4, 5, 6, 7};
  const int ka = kinds[g() % 4], kb = kinds[g() % 4];
  c.a = draw::codes(g, c.fa, ka, c.a.size());
  c.b = draw::codes(g, c.fb, kb, c.b.size());
  return c;
}

// The same for f16 accumulators: overflow, subnormal results, ties, a sum whose last bits decide a rounding.
RC_GTEST_PROP(TensorCoreLevels, F16ChainsEqualPlain, (std::uint64_t seed)) {
  draw::Rng g(seed);
  const Chain c = draw_f16_chain(g);
  std::vector<std::uint16_t> acc(std::size_t(c.rows) * kGroupColumns);
  for (auto& x : acc) x = draw::accumulator_f16(g);
  for (ChainKind kind : {ChainKind::wgmma, ChainKind::hmma_contiguous, ChainKind::hmma_interleaved4}) {
    const auto plain = run_chain(chain_kernel(kind, Level::plain), c, acc);
    for (Level level : fast_levels())
      RC_ASSERT(same_bytes(run_chain(chain_kernel(kind, level), c, acc), plain));
  }
}

// Catches a chain whose packed operands stand in the wrong k: the plain chain against a written-out loop.
TEST(TensorCoreLevels, PlainHmmaChainTakesTheDeclaredOrder) {
  draw::Rng g(5);
  const auto a = draw::codes(g, Fp8::e4m3, 0, 32), b = draw::codes(g, Fp8::e4m3, 0, 32);
  for (int order = 0; order < 2; ++order) {
    std::uint32_t c = 0;
    for (int half = 0; half < 2; ++half) {
      std::uint16_t x[16], y[16];
      int n = 0;
      for (int k = 0; k < 32; ++k)
        if ((order == 0 ? k / 16 : k / 2 % 2) == half) {
          x[n] = fp8_to_f16(Fp8::e4m3, a[k]);
          y[n++] = fp8_to_f16(Fp8::e4m3, b[k]);
        }
      c = hmma_k16(x, y, AccumulatorFormat::f32, c);
    }
    const Chain chain{Fp8::e4m3, Fp8::e4m3, 1, 1, 32, a, b};
    const ChainKind kind = order == 0 ? ChainKind::hmma_contiguous : ChainKind::hmma_interleaved4;
    const auto acc = run_chain(chain_kernel(kind, Level::plain), chain, std::vector<float>(kGroupColumns));
    EXPECT_EQ(float_bits(acc[0]), c);
  }
}

// Catches a machine on which nothing fast was tried without anyone noticing.
TEST(TensorCoreLevels, BestLevelIsAvailable) {
  EXPECT_TRUE(available(best_level()));
  EXPECT_EQ(&mma_step(), &mma_step(best_level()));
}

}  // namespace
}  // namespace moe::reference
