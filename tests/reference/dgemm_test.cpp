#include "reference/dgemm/dgemm.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

#include "fixtures/problem/number_formats.hpp"
#include "reference/grouped_sum.hpp"

namespace moe::reference {
namespace {

// Catches: a path that drops a tail of m, n or k, ignores a leading dimension, or overwrites instead of
// adding.
RC_GTEST_PROP(Dgemm, EveryPathIsTheTripleLoop, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const std::int64_t m = 1 + random() % 37, n = 1 + random() % 41, k = 1 + random() % 150;
  const std::int64_t lda = k + random() % 3, ldb = k + random() % 3, ldc = n + random() % 3;
  std::normal_distribution<double> normal;
  std::vector<double> a(m * lda), b(n * ldb), start(m * ldc);
  for (auto* v : {&a, &b, &start})
    for (double& x : *v) x = normal(random);
  for (const DgemmPath path : available_dgemm_paths()) {
    std::vector<double> c = start;
    dgemm_kernels(path).multiply(a.data(), lda, b.data(), ldb, c.data(), ldc, m, n, k);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < ldc; ++j) {
        double sum = start[i * ldc + j], size = std::fabs(sum);
        if (j < n)
          for (std::int64_t x = 0; x < k; ++x) {
            sum += a[i * lda + x] * b[j * ldb + x];
            size += std::fabs(a[i * lda + x] * b[j * ldb + x]);
          }
        RC_ASSERT(std::fabs(c[i * ldc + j] - sum) <= double(k + 1) * 0x1p-52 * size);
      }
  }
}

// Catches: a code decoded wrong in a vector lane or in the tail; NaN codes taken for 480.
TEST(Dgemm, EveryPathDecodesEveryCode) {
  std::vector<std::uint8_t> codes(256 + 77);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::uint8_t(i);
  const float scale = 0.7f;
  for (const DgemmPath path : available_dgemm_paths()) {
    std::vector<double> value(codes.size()), raised(codes.size());
    dgemm_kernels(path).decode(codes.data(), std::int64_t(codes.size()), scale, value.data());
    dgemm_kernels(path).decode_raised(codes.data(), std::int64_t(codes.size()), scale, raised.data());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float exact = decode_e4m3(codes[i]);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(value[i]) && std::isnan(raised[i])) << i;
        continue;
      }
      EXPECT_EQ(value[i], double(exact) * scale) << dgemm_kernels(path).name << " " << i;
      const double magnitude = exact == 0 ? 0 : std::fmax(std::fabs(exact), 0x1p-6f);
      EXPECT_EQ(raised[i], magnitude * scale) << dgemm_kernels(path).name << " " << i;
    }
  }
}

// Catches: a row or column block computed twice or left out, a scale of the wrong block, results that depend
// on the number of threads or on the rows asked for. Two experts, rows in mixed order, K and N that leave
// tails.
RC_GTEST_PROP(GroupedSum, IsTheTripleLoopForEveryPathAndThreadCount, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const std::int64_t experts = 2, n = 100 + random() % 200, k = 16 * (1 + random() % 20),
                     rows = 1 + random() % 9;
  const std::int64_t blocks_n = (n + 127) / 128, blocks_k = (k + 127) / 128;
  std::vector<std::uint8_t> a(rows * k), w(experts * n * k);
  for (auto* v : {&a, &w})
    for (auto& code : *v) code = std::uint8_t(random() % 0x7F) | std::uint8_t(random() & 0x80);
  std::vector<float> a_scale(rows * blocks_k), w_scale(experts * blocks_n * blocks_k);
  for (auto* v : {&a_scale, &w_scale})
    for (float& s : *v) s = 0.25f + float(random() % 64) / 64;
  GroupedGemm gemm;
  gemm.a = {k, a.data(), a_scale.data(), blocks_k, 1};
  gemm.w = {QuantKind::block128, experts, n, k, w.data(), w_scale.data()};
  for (std::int64_t r = 0; r < rows; ++r) gemm.rows.push_back({r, rows - 1 - r, std::int32_t(random() % 2)});
  for (const DgemmPath path : available_dgemm_paths()) {
    const GroupedSum one = grouped_sum(gemm, gemm.rows, nullptr, {std::nullopt, 1, &dgemm_kernels(path)});
    const GroupedSum three = grouped_sum(gemm, gemm.rows, nullptr, {std::nullopt, 3, &dgemm_kernels(path)});
    RC_ASSERT(one.value == three.value);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < n; ++j) {
        const GemmRow& row = gemm.rows[r];
        double sum = 0, size = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          const double p = double(decode_e4m3(a[row.act * k + x])) * a_scale[row.act * blocks_k + x / 128] *
                           decode_e4m3(w[(row.expert * n + j) * k + x]) *
                           w_scale[(row.expert * blocks_n + j / 128) * blocks_k + x / 128];
          sum += p;
          size += std::fabs(p);
        }
        RC_ASSERT(std::fabs(one.value[r * n + j] - sum) <= double(k + 4) * 0x1p-52 * size);
      }
  }
}

}  // namespace
}  // namespace moe::reference
