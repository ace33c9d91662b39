// Does each primitive of the layer do on the emulated SM what the PTX ISA says? The conformance kernels
// against a direct computation that shares nothing with the emulator but the number formats.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "device/hopper/conformance/conformance_kernels.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "tests/device/emulator_fixture.hpp"

namespace moe::test {
namespace {

namespace conformance = hopper::conformance;
using device::emulator::Emulator;
using device::emulator::GlobalMemory;
using device::emulator::LaunchResult;
using device::emulator::Options;

int index_of(std::string_view name) {
  for (int i = 0; i < conformance::kKernelCount; ++i)
    if (name == conformance::kKernels[i].name) return i;
  throw std::logic_error("no such kernel");
}

/// Memory, an emulator and one kernel's launch.
struct Bench {
  GlobalMemory memory;
  Emulator emulator{memory};
  conformance::Params params{};

  template <class T>
  T* input(std::size_t count) {
    auto* p = static_cast<T*>(memory.allocate(count * sizeof(T), "in", true));
    params.in = reinterpret_cast<const std::uint8_t*>(p);
    return p;
  }
  template <class T>
  T* output(std::size_t count) {
    auto* p = static_cast<T*>(memory.allocate(count * sizeof(T), "out"));
    params.out = reinterpret_cast<std::uint8_t*>(p);
    return p;
  }
  /// Runs under one seed (-1: deterministic) and expects no report.
  LaunchResult run(std::string_view name, int seed = -1, unsigned grid = 1, int threads = 1) {
    const int i = index_of(name);
    Options o;
    if (seed >= 0) o = Options::adversarial(std::uint64_t(seed), integer_arithmetic());
    o.arithmetic = integer_arithmetic();
    o.threads = threads;
    const conformance::Kernel& k = conformance::kKernels[i];
    const LaunchResult r = emulator.launch({conformance::emulated_kernels()[i], &params, sizeof params, grid,
                                            unsigned(k.threads), std::size_t(k.shared_bytes)},
                                           o);
    EXPECT_TRUE(r.clean()) << name << " seed " << seed << "\n" << all_sentences(r);
    return r;
  }
};

// Catches: a wrong descriptor, swizzle, operand order, accumulator fragment or scale_d, for every N of the
// layer.
TEST(Conformance, WgmmaEqualsADirectProduct) {
  for (int n : conformance::kWgmmaWidths) {
    Bench bench;
    auto* a = bench.input<std::uint8_t>(64 * 128);
    auto* b = bench.input<std::uint8_t>(256 * 128);
    auto* out = bench.output<float>(std::size_t(64 * n));
    Scramble random{std::uint64_t(n)};
    for (int i = 0; i < 64 * 128; ++i) a[i] = integer_code(random.below(9) - 4);
    for (int i = 0; i < 256 * 128; ++i) b[i] = integer_code(random.below(9) - 4);
    bench.params.a = tensor_map(a, 64, 128, 128, 64);
    bench.params.b = tensor_map(b, std::uint64_t(n), 128, 128, unsigned(n));
    for (int seed = -1; seed < 6; ++seed) {
      const LaunchResult r = bench.run("wgmma_" + std::to_string(n), seed);
      EXPECT_EQ(r.counts.wgmma, (std::map<int, std::int64_t>{{n, 8}}));
      EXPECT_EQ(r.counts.macs(), 64LL * n * 32 * 8);
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < n; ++j) {
          float sum = 0;
          for (int k = 0; k < 128; ++k) sum += decode_e4m3(a[i * 128 + k]) * decode_e4m3(b[j * 128 + k]);
          ASSERT_EQ(out[i * n + j], 2 * sum)
              << "N " << n << " row " << i << " column " << j << " seed " << seed;
        }
    }
  }
}

// Catches: a box that is shifted, not swizzled, or not zero outside the matrix, on each of its four sides.
TEST(Conformance, TmaBoxIsSwizzledAndZeroOutsideTheMatrix) {
  constexpr int kRows = 100, kCols = 208, kStride = 240;
  Bench bench;
  auto* in = bench.input<std::uint8_t>(kRows * kStride);
  auto* out = bench.output<std::uint8_t>(64 * 128);
  for (int i = 0; i < kRows * kStride; ++i) in[i] = std::uint8_t(1 + i % 251);
  bench.params.a = tensor_map(in, kRows, kCols, kStride, 64);
  for (const auto& [x, y] : {std::pair{0, 0}, {128, 64}, {144, 3}, {-16, -5}, {0, 100}, {-128, 0}, {192, 99}})
    for (int seed = -1; seed < 5; ++seed) {
      bench.params.x = x;
      bench.params.y = y;
      bench.params.n = 128;
      const LaunchResult r = bench.run("tma_box", seed);
      EXPECT_EQ(r.counts.tma_load_bytes, 64 * 128);
      for (int row = 0; row < 64; ++row)
        for (int c = 0; c < 128; ++c) {
          const bool inside = y + row >= 0 && y + row < kRows && x + c >= 0 && x + c < kCols;
          const int at = row * 128 + (((c >> 4) ^ (row & 7)) << 4) + (c & 15);
          ASSERT_EQ(out[at], inside ? in[(y + row) * kStride + x + c] : 0)
              << x << " " << y << " " << row << " " << c;
        }
    }
}

struct Layout {
  const char* name;
  hopper::Swizzle swizzle;
};
constexpr Layout kLayouts[] = {{"wgmma_b64", hopper::Swizzle::b64},
                               {"wgmma_b32", hopper::Swizzle::b32},
                               {"wgmma_none", hopper::Swizzle::none}};

// Catches: a descriptor of another layout that is read as if it had the 128-byte swizzle.
TEST(Conformance, WgmmaOfEveryLayoutEqualsADirectProduct) {
  for (const auto& [name, swizzle] : kLayouts) {
    Bench bench;
    auto* a = bench.input<std::uint8_t>(64 * 128);
    auto* b = bench.input<std::uint8_t>(64 * 128);
    auto* out = bench.output<float>(64 * 64);
    Scramble random{8};
    for (int i = 0; i < 64 * 128; ++i) a[i] = integer_code(random.below(9) - 4);
    for (int i = 0; i < 64 * 128; ++i) b[i] = integer_code(random.below(9) - 4);
    bench.params.a = tensor_map(a, 64, 128, 128, 64, swizzle);
    bench.params.b = tensor_map(b, 64, 128, 128, 64, swizzle);
    for (int seed = -1; seed < 3; ++seed) {
      bench.run(name, seed);
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j) {
          float sum = 0;
          for (int k = 0; k < 128; ++k) sum += decode_e4m3(a[i * 128 + k]) * decode_e4m3(b[j * 128 + k]);
          ASSERT_EQ(out[i * 64 + j], sum) << name << " row " << i << " column " << j << " seed " << seed;
        }
    }
  }
}

// Catches: a thread that loses or mixes registers where a warpgroup gives some and others take them.
TEST(Conformance, RegistersKeepTheirWords) {
  Bench bench;
  auto* in = bench.input<std::uint32_t>(128);
  auto* out = bench.output<std::uint32_t>(384);
  Scramble random{9};
  for (int i = 0; i < 128; ++i) in[i] = std::uint32_t(random.below(1 << 30));
  bench.run("registers");
  for (int t = 0; t < 384; ++t) {
    std::vector<std::uint32_t> word(t < 256 ? 160 : 8);
    const std::size_t n = word.size();
    for (std::size_t i = 0; i < n; ++i) word[i] = in[(std::size_t(t) + i) % 128] * std::uint32_t(2 * i + 1);
    for (std::size_t round = 0; round < 3; ++round)
      for (std::size_t i = 0; i < n; ++i) word[i] = word[i] * 0x9E3779B1u + word[(i + n / 2 + round) % n];
    std::uint32_t sum = 0;
    for (std::uint32_t w : word) sum += w;
    ASSERT_EQ(out[t], sum) << "thread " << t;
  }
}

// Catches: a narrow box that is swizzled by the wrong address bits, or not zero outside the matrix.
TEST(Conformance, NarrowBoxesAreSwizzledByTheirWidth) {
  for (const auto& [name, swizzle] : kLayouts) {
    const int width = int(row_bytes(swizzle));
    Bench bench;
    auto* in = bench.input<std::uint8_t>(100 * 240);
    auto* out = bench.output<std::uint8_t>(64 * 128);
    for (int i = 0; i < 100 * 240; ++i) in[i] = std::uint8_t(1 + i % 251);
    bench.params.a = tensor_map(in, 100, 208, 240, 64, swizzle);
    bench.params.n = width;
    for (const auto& [x, y] : {std::pair{64, 3}, {-16, -5}, {192, 80}}) {
      bench.params.x = x;
      bench.params.y = y;
      EXPECT_EQ(bench.run("tma_box").counts.tma_load_bytes, 64 * width);
      for (int row = 0; row < 64; ++row)
        for (int c = 0; c < width; ++c) {
          const bool inside = y + row >= 0 && y + row < 100 && x + c >= 0 && x + c < 208;
          // which 128-byte line of shared memory the row lies in permutes the 16-byte pieces of a row
          const int line = row * width / 128, piece = (c / 16) ^ (line % (width / 16));
          ASSERT_EQ(out[row * width + piece * 16 + c % 16], inside ? in[(y + row) * 240 + x + c] : 0)
              << width << " " << x << " " << y << " " << row << " " << c;
        }
    }
  }
}

// Catches: a parity that is taken for the other one, and a try_wait that never gives up.
TEST(Conformance, PhasesAreToldByTheirParity) {
  Bench bench;
  auto* out = bench.output<std::uint32_t>(9);
  auto* in = bench.input<std::uint32_t>(16);
  in[15] = 77;
  for (int seed = -1; seed < 8; ++seed) {
    bench.run("phases", seed);
    EXPECT_EQ(std::vector<std::uint32_t>(out, out + 9),
              (std::vector<std::uint32_t>{1, 0, 0, 1, 0, 0, 1, 0, 77}));
  }
}

// Catches: lost or doubled bytes of bulk copies.
TEST(Conformance, BulkCopiesMoveTheirBytes) {
  Bench bench;
  auto* in = bench.input<std::uint8_t>(4096);
  auto* out = bench.output<std::uint8_t>(4096);
  for (int i = 0; i < 4096; ++i) in[i] = std::uint8_t(i * 7 + i / 256);
  for (int n : {16, 1040, 4096})
    for (int seed = -1; seed < 8; ++seed) {
      std::memset(out, 0xEE, 4096);
      bench.params.n = n;
      const LaunchResult r = bench.run("bulk_copy", seed);
      EXPECT_EQ(r.counts.tma_load_bytes, n);
      EXPECT_EQ(r.counts.tma_store_bytes, n);
      EXPECT_EQ(std::memcmp(in, out, std::size_t(n)), 0);
      for (int i = n; i < 4096; ++i) ASSERT_EQ(out[i], 0xEE);
    }
}

// Catches: a wrong fragment of A, B, C or D of mma.m16n8k16.
TEST(Conformance, MmaFragmentsEqualADirectProduct) {
  Bench bench;
  auto* in = bench.input<std::uint8_t>(16 * 16 + 8 * 16);
  auto* out = bench.output<float>(16 * 8);
  Scramble random{5};
  for (int i = 0; i < 16 * 16 + 8 * 16; ++i) in[i] = integer_code(random.below(17) - 8);
  for (int seed = -1; seed < 8; ++seed) {
    EXPECT_EQ(bench.run("mma", seed).counts.mma, 1);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        float sum = 1;
        for (int k = 0; k < 16; ++k) sum += decode_e4m3(in[i * 16 + k]) * decode_e4m3(in[256 + j * 16 + k]);
        ASSERT_EQ(out[i * 8 + j], sum);
      }
  }
}

float f16_by_formula(std::uint32_t h) {
  const int e = int(h >> 10 & 31), f = int(h & 1023);
  const double magnitude = e ? std::ldexp(1024 + f, e - 25) : std::ldexp(f, -24);
  return float(h & 0x8000 ? -magnitude : magnitude);
}

// Catches: a conversion that rounds otherwise than the formats say; all 256 codes pass through the f16 pairs.
TEST(Conformance, ConversionsAreThoseOfTheFormats) {
  Bench bench;
  auto* in = bench.input<float>(128);
  auto* out = bench.output<std::uint32_t>(128 * 8);
  Scramble random{6};
  for (int i = 0; i < 128; ++i)
    in[i] = std::ldexp(float(random.below(2000000) - 1000000), random.below(40) - 34);
  in[3] = 0.0f, in[4] = -0.0f, in[5] = 1e9f, in[6] = 448.0f, in[7] = 464.0f;
  bench.params.n = 128;
  bench.run("convert");
  for (int i = 0; i < 128; ++i) {
    const float x = in[i], y = in[127 - i];
    const std::uint32_t* o = out + 8 * i;
    EXPECT_EQ(o[0], encode_e4m3(x));
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t half = o[1 + j / 2] >> (16 * (j % 2)) & 0xFFFF;
      const float want = decode_e4m3(std::uint8_t(2 * i + j));
      if (std::isnan(want)) {
        EXPECT_EQ(half, 0x7FFFu);
      } else {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_by_formula(half)), std::bit_cast<std::uint32_t>(want))
            << 2 * i + j;
      }
    }
    EXPECT_EQ(o[3], encode_bf16(x) | std::uint32_t(encode_bf16(0.0f - x)) << 16);
    EXPECT_EQ(std::bit_cast<float>(o[4]), std::fmax(std::fabs(x), std::fabs(y)));
    const float quotient = x / y;
    if (!std::isnan(quotient)) {
      EXPECT_EQ(std::bit_cast<float>(o[5]), quotient);
    }
    EXPECT_EQ(std::bit_cast<float>(o[6]), std::sqrt(std::fabs(x)));
    EXPECT_EQ(std::bit_cast<float>(o[7]), std::fmaf(x, x, y) + x * y);
  }
}

// Catches: lanes mixed up in shuffles and ballots, and an election of none or several.
TEST(Conformance, WarpExchanges) {
  Bench bench;
  auto* out = bench.output<std::uint32_t>(64 * 5);
  for (int seed = -1; seed < 20; ++seed) {
    bench.run("exchange", seed);
    const auto mine = [](int thread) { return std::uint32_t(thread * thread + 7); };
    for (int thread = 0; thread < 64; ++thread) {
      const int base = thread / 32 * 32, lane = thread % 32;
      std::uint32_t votes = 0;
      for (int l = 0; l < 32; ++l) votes |= std::uint32_t(mine(base + l) % 3 == 1) << l;
      const std::uint32_t* o = out + 5 * thread;
      EXPECT_EQ(o[0], mine(base + (lane ^ 5)) + std::bit_cast<std::uint32_t>(float(lane ^ 16)));
      EXPECT_EQ(o[1], mine(base + (lane * 3 + 1) % 32));
      EXPECT_EQ(o[2], votes);
      EXPECT_EQ(o[3], std::uint32_t(std::popcount(votes)));
      EXPECT_EQ(o[4], 1u);
    }
  }
}

// Catches: lost updates when CTAs run on several host threads, and atomics taken for a conflict of CTAs.
TEST(Conformance, ReductionsOfManyCtas) {
  for (int threads : {1, 4}) {
    Bench bench;
    auto* in = bench.input<std::uint32_t>(128);
    auto* out = bench.output<std::uint32_t>(2);
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < 128; ++i) sum += in[i] = i * 2654435761u >> 8;
    const std::uint32_t most = *std::max_element(in, in + 128);
    bench.run("reduce", -1, 50, threads);
    EXPECT_EQ(out[0], 50 * sum);
    EXPECT_EQ(out[1], most);
  }
}

}  // namespace
}  // namespace moe::test
