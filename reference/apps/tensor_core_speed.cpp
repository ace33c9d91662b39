// How many products a second does one core get through the arithmetic of the tensor cores, at each level?
// Prints G products/s for each instruction shape (packing included, as the emulated SM uses it), for long
// chains (operands packed beforehand, rows against 16 columns) of every pairing and accumulator, and at the
// plain level for single instructions in f16. Argument: seconds a figure (default 0.2).
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/mma_step.hpp"

using namespace moe;
using namespace moe::reference;

namespace {

/// Time this thread has run: other programs on the machine disturb it less than the clock on the wall.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Best of three, G products/s.
template <class F>
double rate(double products, double budget, F&& f) {
  f();
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = seconds();
    double n = 0, end = start;
    do {
      for (int i = 0; i < 4; ++i) f();
      n += 4;
      end = seconds();
    } while (end - start < budget / 3);
    best = std::max(best, n * products / (end - start) / 1e9);
  }
  return best;
}

std::vector<std::uint8_t> codes(std::size_t n, Fp8 format = Fp8::e4m3, float sigma = 100) {
  std::mt19937_64 g(n);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<std::uint8_t> v(n);
  for (auto& x : v) x = format == Fp8::e4m3 ? encode_e4m3(normal(g)) : encode_e5m2(normal(g));
  return v;
}

double wgmma_rate(const MmaStep& step, int n, double budget) {
  const auto a = codes(64 * 32), b = codes(std::size_t(n) * 32);
  std::vector<float> d(64 * std::size_t(n));
  return rate(64.0 * n * 32, budget, [&] { step.wgmma_e4m3(a.data(), b.data(), d.data(), n, false); });
}

double mma_f16_rate(const MmaStep& step, double budget) {
  std::vector<std::uint16_t> a, b;
  for (std::uint8_t c : codes(256)) a.push_back(fp8_to_f16(Fp8::e4m3, c));
  for (std::uint8_t c : codes(128)) b.push_back(fp8_to_f16(Fp8::e4m3, c));
  std::vector<float> d(128);
  return rate(16.0 * 8 * 16, budget, [&] { step.mma_f16(a.data(), b.data(), d.data(), d.data()); });
}

struct Aligned {
  std::vector<std::byte> memory;
  std::byte* data;
  explicit Aligned(std::size_t n) : memory(n + 64), data(memory.data()) {
    data += (64 - reinterpret_cast<std::uintptr_t>(data) % 64) % 64;
  }
};

struct ChainCase {
  ChainKind kind;
  Fp8 a = Fp8::e4m3, b = Fp8::e4m3;
  AccumulatorFormat accumulator = AccumulatorFormat::f32;
};
double chain_rate(const ChainCase& c, Level level, int rows, double budget) {
  constexpr int kK = 128;
  const ChainKernel& k = chain_kernel(c.kind, level);
  const float sigma =
      c.accumulator == AccumulatorFormat::f32 ? 100 : 4;  // no overflow, which is another path
  const auto a = codes(std::size_t(rows) * kK, c.a, sigma), b = codes(16 * kK, c.b, sigma);
  Aligned pa(std::size_t(rows) * 4 * k.row_block), pb(4 * k.group_block);
  k.pack_rows(c.a, a.data(), kK, rows, kK, pa.data);
  std::vector<float> d(16 * std::size_t(rows));
  std::vector<std::uint16_t> half(d.size());
  const auto stride = std::ptrdiff_t(4 * k.row_block);
  return rate(16.0 * rows * kK, budget, [&] {
    k.pack_group(c.b, b.data(), kK, 16, kK, pb.data);
    if (c.accumulator == AccumulatorFormat::f32)
      k.run(pa.data, stride, rows, pb.data, 4, d.data(), 16);
    else {
      std::fill(half.begin(), half.end(), std::uint16_t(0));
      k.run_f16(pa.data, stride, rows, pb.data, 4, half.data(), 16);
    }
  });
}

void print_pairings(Level level, double budget) {
  std::printf("  wgmma chain, rows=128, by operands and accumulator:");
  for (AccumulatorFormat f : {AccumulatorFormat::f32, AccumulatorFormat::f16})
    for (Fp8 a : {Fp8::e4m3, Fp8::e5m2})
      for (Fp8 b : {Fp8::e4m3, Fp8::e5m2})
        std::printf(" %s*%s+%s %.2f", a == Fp8::e4m3 ? "e4m3" : "e5m2", b == Fp8::e4m3 ? "e4m3" : "e5m2",
                    f == AccumulatorFormat::f32 ? "f32" : "f16",
                    chain_rate({ChainKind::wgmma, a, b, f}, level, 128, budget));
  std::printf("\n");
}

void print_hmma_f16(Level level, double budget) {
  std::printf("  hmma chain, f16 accumulator:");
  for (int rows : {1, 16, 128})
    std::printf(" rows=%d %.2f", rows,
                chain_rate({ChainKind::hmma_interleaved4, Fp8::e4m3, Fp8::e4m3, AccumulatorFormat::f16},
                           level, rows, budget));
  std::printf("\n");
}

/// One element at a time.
void print_plain_instructions(double budget) {
  const auto a = codes(32), b = codes(33);
  std::uint16_t x[16], y[16];
  for (int k = 0; k < 16; ++k) {
    x[k] = fp8_to_f16(Fp8::e4m3, a[k]);
    y[k] = fp8_to_f16(Fp8::e4m3, b[k]);
  }
  std::uint32_t d = 0;
  const auto f16 = AccumulatorFormat::f16;
  std::printf("  one element: mma m16n8k16 f16 accumulator %.2f",
              rate(16, budget, [&] { d ^= hmma_k16(x, y, f16, d & 0x83FF); }));
  for (AccumulatorFormat f : {AccumulatorFormat::f32, f16})
    std::printf(", mma m16n8k32 fp8 %s accumulator %.2f", f == f16 ? "f16" : "f32", rate(32, budget, [&] {
                  d ^= mma_sync_fp8_k32(Fp8::e4m3, a.data(), Fp8::e4m3, b.data(), f, d & 0x83FF);
                }));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.2;
  for (Level level : {Level::plain, Level::avx2, Level::avx512}) {
    if (!available(level)) continue;
    std::printf("%-7s G products/s a core\n  wgmma m64nNk32 with packing: ", name(level).data());
    for (int n : {8, 16, 24, 32, 64, 128, 256})
      std::printf(" n=%d %.2f", n, wgmma_rate(mma_step(level), n, budget));
    std::printf("\n  mma m16n8k16 with packing: %.2f\n  chain of k=128, columns packed each time: ",
                mma_f16_rate(mma_step(level), budget));
    for (ChainKind kind : {ChainKind::wgmma, ChainKind::hmma_contiguous})
      for (int rows : {1, 4, 16, 128})
        std::printf(" %s rows=%d %.2f", kind == ChainKind::wgmma ? "wgmma" : "hmma", rows,
                    chain_rate({kind}, level, rows, budget));
    std::printf("\n");
    print_pairings(level, budget);
    print_hmma_f16(level, budget);
    if (level == Level::plain) print_plain_instructions(budget);
  }
}
