// Grouped GEMMs for tests whose sums no known Semantics makes: fp32 throughout, blocks from the end, a store
// that cuts.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/number_formats.hpp"
#include "harness/reference_executor.hpp"
#include "reference/operands.hpp"
#include "tests/harness/rounding_executor.hpp"

namespace moe::harness {

/// Any op as a preset gives it, by a kernel that declares nothing.
inline LayerFunction preset_op(std::string preset) {
  return [preset](const Problem& p, const TensorSet& inputs) {
    const auto executor = make_reference_executor(1, preset);
    Case c;
    c.problem = p;
    auto opened = executor->open(c);
    opened.session->bind(inputs);
    return opened.session->run(device::RunMode::eager).outputs;
  };
}

/// c of a grouped GEMM, each element by `sum(a codes, w codes, a scale, w scale of each block)`.
using SumOfBlocks = float (*)(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales);
inline LayerFunction sums_by(SumOfBlocks sum, bool cut_output = false) {
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet out = preset_op("moeproof")(p, in);
    const reference::GroupedGemm gemm = reference::contract_gemm(p, in);
    const auto c = out.at("c").as<std::uint16_t>();
    for (const reference::GemmRow& r : gemm.rows)
      for (std::int64_t n = 0; n < gemm.w.n; ++n) {
        std::vector<float> scales;
        for (std::int64_t k = 0; k < gemm.w.k; k += 128)
          scales.push_back(gemm.a.scale(r.act, k) * gemm.w.scale(r.expert, n, k));
        const float y = sum(gemm.a.codes + r.act * gemm.w.k, gemm.w.row(r.expert, n), scales);
        c[std::size_t(r.out * gemm.w.n + n)] =
            cut_output ? std::uint16_t(float_bits(y) >> 16) : encode_bf16(y);
      }
    return out;
  };
}

inline float fp32_chain(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales) {
  float acc = 0;
  for (std::size_t b = 0; b < scales.size(); ++b) {
    float part = 0;
    for (std::size_t i = b * 128; i < b * 128 + 128; ++i)
      part = __builtin_fmaf(decode_e4m3(a[i]), decode_e4m3(w[i]), part);
    acc = __builtin_fmaf(scales[b], part, acc);
  }
  return acc;
}
inline float last_block_first(const std::uint8_t* a, const std::uint8_t* w,
                              const std::vector<float>& scales) {
  float acc = 0;
  for (std::size_t b = scales.size(); b-- > 0;) {
    float part = 0;
    for (std::size_t i = b * 128; i < b * 128 + 128; ++i)
      part = __builtin_fmaf(decode_e4m3(a[i]), decode_e4m3(w[i]), part);
    acc = __builtin_fmaf(scales[b], part, acc);
  }
  return acc;
}

}  // namespace moe::harness
