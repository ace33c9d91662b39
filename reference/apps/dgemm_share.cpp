// How close does a GEMM of FP8 codes in double come to Eigen's own product of doubles? Prints, for GEMM 1 of
// one expert (N 512, K 7168) and 16 to 4096 rows, the rate of grouped_sum (codes decoded, scales applied) and
// of Eigen on matrices that are doubles already: the same shape, and the square product that Eigen likes
// best. Each figure is the best of several turns taken in alternation, because neighbours on the machine
// disturb single runs.
//
//   dgemm_share [threads=1] [turns=5]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "fixtures/problem/philox.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/parallel.hpp"

namespace {

using namespace moe;
using namespace moe::reference;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Eigen alone: rows split over the threads, as its own parallel product does.
void eigen_product(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c,
                   std::int64_t m, std::int64_t n, std::int64_t k, int threads) {
  const bool by_rows = m >= n;
  const std::int64_t size = by_rows ? m : n, share = (size + threads - 1) / threads;
  parallel_for(threads, threads, [&](std::int64_t t) {
    const std::int64_t first = t * share, count = std::min(share, size - first);
    if (count <= 0) return;
    if (by_rows) {
      best_dgemm().multiply(a.data() + first * k, k, b.data(), k, c.data() + first * n, n, count, n, k);
    } else {
      best_dgemm().multiply(a.data(), k, b.data() + first * k, k, c.data() + first, n, m, count, k);
    }
  });
}

std::vector<std::uint8_t> codes(std::int64_t count, std::uint32_t tensor) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t bits = random_block(1, tensor, i / 4).x >> (8 * (i % 4));
    out[i] = std::uint8_t((bits & 0x7Fu) == 0x7Fu ? bits & 0x80u : bits);
  }
  return out;
}

struct Rates {
  double ours = 0, same_shape = 0;  // multiply-adds a second
};

Rates measure(std::int64_t m, std::int64_t n, std::int64_t k, int threads, int turns) {
  const auto a = codes(m * k, 1), w = codes(n * k, 2);
  const std::vector<float> a_scale(std::size_t(m * (k / 128)), 0.5f),
      w_scale(std::size_t(n / 128 * (k / 128)), 0.25f);
  GroupedGemm gemm;
  gemm.a = {k, a.data(), a_scale.data(), k / 128, 1};
  gemm.w = {QuantKind::block128, 1, n, k, w.data(), w_scale.data()};
  for (std::int64_t r = 0; r < m; ++r) gemm.rows.push_back({r, r, 0});
  std::vector<double> da(std::size_t(m * k), 0.5), dw(std::size_t(n * k), 0.25), dc(std::size_t(m * n), 0.0);
  double ours = 1e30, eigen = 1e30;
  for (int turn = 0; turn < turns; ++turn) {
    ours = std::min(ours, seconds([&] { grouped_sum(gemm, gemm.rows, nullptr, {std::nullopt, threads}); }));
    eigen = std::min(eigen, seconds([&] { eigen_product(da, dw, dc, m, n, k, threads); }));
  }
  const double products = double(m) * double(n) * double(k);
  return {products / ours, products / eigen};
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1, turns = argc > 2 ? std::atoi(argv[2]) : 5;
  double best = 0;
  const std::int64_t side = 1024;
  std::vector<double> a(side * side, 0.5), b(side * side, 0.25), c(side * side, 0.0);
  for (int turn = 0; turn < turns; ++turn)
    best = std::max(best, double(side * side * side) /
                              seconds([&] { eigen_product(a, b, c, side, side, side, threads); }));
  std::printf("Eigen, %s, %d thread(s), %lld^3: %.1f G multiply-adds/s\n", best_dgemm().name.data(), threads,
              static_cast<long long>(side), best * 1e-9);
  std::printf("%6s %10s %12s %14s %14s\n", "rows", "FP8 G/s", "Eigen G/s", "share(shape)", "share(best)");
  for (std::int64_t m = 16; m <= 4096; m *= 4) {
    const Rates rates = measure(m, 512, 7168, threads, turns);
    best = std::max(best, rates.same_shape);
    std::printf("%6lld %10.1f %12.1f %14.2f %14.2f\n", static_cast<long long>(m), rates.ours * 1e-9,
                rates.same_shape * 1e-9, rates.ours / rates.same_shape, rates.ours / best);
  }
}
