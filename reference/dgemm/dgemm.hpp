// How fast can this machine multiply matrices of doubles? Eigen's product and the FP8 decoder that feeds it,
// compiled once per instruction set and chosen at run time, so that one binary serves every x86-64.
//
// Each instruction set is a translation unit of its own in which the namespace Eigen has another name:
// Eigen's templates are weak symbols, and with one shared name the linker would keep any one of them for all
// callers.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace moe::reference {

enum class DgemmPath { baseline, avx2, avx512 };  // baseline: x86-64 as the compiler sees it (SSE2)

struct DgemmKernels {
  DgemmPath path;
  std::string_view name;
  /// c[m][n] += a[m][k] * b[n][k]^T, all row-major with rows lda, ldb, ldc doubles apart; one thread.
  void (*multiply)(const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double* c,
                   std::int64_t ldc, std::int64_t m, std::int64_t n, std::int64_t k);
  /// out[i] = value(codes[i]) * scale (one double rounding); NaN codes give NaN.
  void (*decode)(const std::uint8_t* codes, std::int64_t count, double scale, double* out);
  /// out[i] = max(|value(codes[i])|, 2^-6) * scale, 0 for a zero code: the magnitude at which the tensor core
  /// aligns it.
  void (*decode_raised)(const std::uint8_t* codes, std::int64_t count, double scale, double* out);
};

/// What this processor can run, slowest first; never empty.
std::vector<DgemmPath> available_dgemm_paths();
const DgemmKernels& dgemm_kernels(DgemmPath path);
/// The fastest path of this processor.
const DgemmKernels& best_dgemm();

}  // namespace moe::reference
