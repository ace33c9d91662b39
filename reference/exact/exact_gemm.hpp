// What are the bits of one expert's GEMM under a declared Semantics? For row r and column n, all in fp32 but
// for the tensor core itself:
//
//   chain      part = tensor-core chain over the k's of a segment, from zero (wgmma_k32 or hmma_k16,
//   instructions.hpp);
//              a segment ends every promote_k (0: at K). A K tail is padded with zeros, which changes
//              nothing.
//   block128   each segment lies in one 128-block and is scaled as ScaleOrder says:
//                product_fma         acc = fma(fl(as * ws), part, acc)      act_weight_fma  acc = fma(fl(part
//                * as), ws, acc) act_weight_mul_add  acc = fl(acc + fl(fl(part * as) * ws)) weight_act_fma
//                acc = fma(fl(part * ws), as, acc) product_mul_add     acc = fl(acc + fl(part * fl(as * ws)))
//   others     acc = fl(acc + part), one chain (promote_k = 0): acc = part. Behind K:
//                act_weight_*  fl(fl(acc * as) * ws)   weight_act_fma  fl(fl(acc * ws) * as)   product_*
//                fl(acc * fl(as * ws))
//   then       y = fl(y + bias), y = fl(y * row_weight), where given. NaN is 0x7FFFFFFF.
#pragma once
#include <cstdint>

#include "fixtures/problem/quant_scheme.hpp"
#include "fixtures/problem/semantics.hpp"
#include "reference/tensor_core/chain.hpp"

namespace moe::reference {

/// The scale of row (or column) i and 128-block b of K stands at data[i / step * stride + b * block_stride].
struct ScaleView {
  const float* data = nullptr;
  std::int64_t stride = 0, block_stride = 0, step = 1;

  float at(std::int64_t i, std::int64_t block) const {
    return data[i / step * stride + block * block_stride];
  }
};
/// Activation scales [rows, K/128] (row) or [K/128, ld] (mn_major, `ld` floats from block to block); [rows];
/// [1].
ScaleView activation_scales(const QuantScheme& scheme, const float* data, std::int64_t k,
                            std::int64_t ld = 0);
/// Weight scales of one expert: [ceil(N/128), ceil(K/128)]; [N]; [1].
ScaleView weight_scales(const QuantScheme& scheme, const float* data, std::int64_t k);

struct GemmOperands {
  const std::uint8_t* a = nullptr;  // e4m3 [*, K], rows lda bytes apart
  std::int64_t lda = 0;
  const std::int32_t* a_rows =
      nullptr;  // row r of the GEMM is row a_rows[r] of a and of a_scale; null: row r
  ScaleView a_scale;
  const std::uint8_t* w = nullptr;  // e4m3 [N, K] of one expert, rows ldw bytes apart
  std::int64_t ldw = 0;
  ScaleView w_scale;
  const float* bias = nullptr;        // [N] or null
  const float* row_weight = nullptr;  // [rows] or null: the routing weight under WeightPlace::gemm2
  std::int64_t rows = 0, n = 0, k = 0;
  QuantScheme scheme;
};

/// out[r * n + column] before the final rounding. Up to `threads` threads; the bytes do not depend on their
/// number or on the level. Throws BadInput when promote_k is no multiple of 32 or, for block128, does not
/// divide 128.
void exact_gemm(const Semantics& semantics, const GemmOperands& operands, float* out, int threads,
                Level level = best_level());
/// The same, rounded once to bf16 (nearest even, NaN 0x7FFF).
void exact_gemm_bf16(const Semantics& semantics, const GemmOperands& operands, std::uint16_t* out,
                     int threads, Level level = best_level());

}  // namespace moe::reference
