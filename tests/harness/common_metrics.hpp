// What would the public test suites say of an output? Their rules, each written from its public definition,
// so that a test can show what they let through.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness::metrics {

using Values = std::vector<float>;

struct Metric {
  std::string name, limit;
  double value = 0;
  bool passes = false;
};

inline Values values(const Tensor& bf16) {
  Values v;
  for (const std::uint16_t code : bf16.as<std::uint16_t>()) v.push_back(decode_bf16(code));
  return v;
}

/// DeepGEMM, deep_gemm/testing/numeric.py, calc_diff: 1 - 2 sum xy / sum (xx + yy), in double; its FP8 tests
/// ask for less than 0.001.
inline Metric calc_diff(const Values& x, const Values& y) {
  double xy = 0, square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += double(x[i]) * y[i];
    square += double(x[i]) * x[i] + double(y[i]) * y[i];
  }
  const double diff = square == 0 ? 0 : 1 - 2 * xy / square;
  return {"DeepGEMM's calc_diff", "< 0.001", diff, diff < 0.001};
}

/// Share of elements with |x - y| <= atol + rtol |y| (torch.isclose; NaN is close to nothing).
inline double share_close(const Values& x, const Values& y, double atol, double rtol) {
  std::size_t close = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    close += std::fabs(double(x[i]) - y[i]) <= atol + rtol * std::fabs(double(y[i]));
  return double(close) / double(x.size());
}

/// vLLM, tests/kernels/moe/test_block_fp8.py: torch.testing.assert_close, every element, atol = rtol = 0.035.
inline Metric vllm_close(const Values& x, const Values& y) {
  const double share = share_close(x, y, 0.035, 0.035);
  return {"vLLM's assert_close(0.035, 0.035)", "all close", share, share == 1};
}

/// FlashInfer, tests/moe/test_dpsk_fused_moe_fp8.py: 85 % of the elements within 0.1 + 0.2 |y|.
inline Metric flashinfer_share(const Values& x, const Values& y) {
  const double share = share_close(x, y, 0.1, 0.2);
  return {"FlashInfer's share within 0.1 + 0.2 |y|", ">= 0.85", share, share >= 0.85};
}

/// FlashInfer's fuzz handlers for FP8 MoE (flashinfer-ai/flashinfer PR 5301 quotes the envelope): every
/// element within 0.15 max |y| + 0.001 + 0.85 |y|.
inline Metric flashinfer_envelope(const Values& x, const Values& y) {
  double most = 0;
  for (const float v : y) most = std::max(most, std::fabs(double(v)));
  const double share = share_close(x, y, 0.15 * most + 1e-3, 0.85);
  return {"FlashInfer's fuzz envelope", "all close", share, share == 1};
}

/// SGLang, python/sglang/test/test_block_fp8.py, fused MoE: mean |x - y| / mean |y| below 0.02.
inline Metric sglang_mean(const Values& x, const Values& y) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::fabs(double(x[i]) - y[i]);
    size += std::fabs(double(y[i]));
  }
  return {"SGLang's mean relative difference", "< 0.02", error / size, error / size < 0.02};
}

/// Cosine similarity alone (what mlc-ai/TIRx-kernels PR 5 replaced), with the usual limit of 0.99.
inline Metric cosine(const Values& x, const Values& y) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += double(x[i]) * y[i];
    xx += double(x[i]) * x[i];
    yy += double(y[i]) * y[i];
  }
  const double c = xy / std::sqrt(xx * yy);
  return {"cosine similarity", "> 0.99", c, c > 0.99};
}

/// The largest error, kept by comparisons that NaN never wins (ralna/RALFit issue 138: "NaN > anything" is
/// false).
inline Metric largest_error(const Values& x, const Values& y, double tolerance) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(double(x[i]) - y[i]);
    if (error > worst) worst = error;
  }
  return {"largest error, NaN never compared", "<= tolerance", worst, !(worst > tolerance)};
}

/// torch.nan_to_num on both sides in front of a comparison (huggingface/transformers PR 42775).
inline Values nan_to_num(Values v) {
  for (float& x : v)
    if (std::isnan(x)) x = 0;
  return v;
}

/// torch.testing.assert_close with a tolerance of one's own.
inline Metric close(const Values& x, const Values& y, double atol, double rtol) {
  const double share = share_close(x, y, atol, rtol);
  char name[64];
  std::snprintf(name, sizeof name, "assert_close(%g, %g)", atol, rtol);
  return {name, "all close", share, share == 1};
}

}  // namespace moe::harness::metrics
