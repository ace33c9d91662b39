#include "sim/naive.hpp"

#include <algorithm>
#include <cmath>

namespace moe::sim {
namespace {

double up_to(double x, double unit) { return std::ceil(x / unit); }

double grouped_seconds(double active, double rows, double padded, double n, double k) {
  const double memory = (active * n * k + rows * (k + 2 * n)) / 4.1e12;
  const double math = 2 * padded * n * k / 0.85e15;
  return std::cbrt(memory * memory * memory + math * math * math);
}

}  // namespace

double naive_dense_seconds(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double M = double(m), N = double(n), K = double(k);
  const double waves = up_to(up_to(M, 128) * up_to(N, 128), 132);
  const double math = waves * 2 * 128 * 128 * K / (8192 * 1.4e9);
  return std::max(math, (M * K + N * K + 2 * M * N) / 4.3e12) + 4e-6;
}

double naive_moe_seconds(const Problem& problem, const ExpertLoad& load) {
  const MoeShape& s = problem.shape;
  double padded = 0;
  for (const std::int64_t rows : load.rows) padded += up_to(double(rows), 64) * 64;
  const double active = load.active(), rows = double(load.total());
  const double up = grouped_seconds(active, rows, padded, double(s.up_rows()), double(s.hidden));
  const double down = grouped_seconds(active, rows, padded, double(s.hidden), double(s.local_intermediate()));
  if (problem.op == Op::grouped_gemm) return (problem.gemm == 1 ? up : down) + 4e-6;
  return up + down + 25e-6;
}

}  // namespace moe::sim
