#include "reference/tensor_core/mma_step.hpp"

#include <algorithm>
#include <cstring>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/instructions.hpp"
#include "reference/tensor_core/packed.hpp"

namespace moe::reference {
namespace {

constexpr int kM = 64;  // rows of a wgmma

/// Packed operands of one instruction; the plain level needs less.
struct alignas(64) Workspace {
  std::byte rows[kM * sizeof(packed::WgmmaRow)];
  std::byte group[sizeof(packed::WgmmaGroup)];
  float columns[kM * kGroupColumns];
};
Workspace& workspace() {
  static thread_local Workspace w;
  return w;
}

/// Columns n0 .. n0 + 15 of d, from packed rows.
void sixteen_columns(const ChainKernel& kernel, Workspace& w, const std::uint8_t* b, float* d, int n) {
  kernel.pack_group(Fp8::e4m3, b, kBlockK, kGroupColumns, kBlockK, w.group);
  kernel.run(w.rows, std::ptrdiff_t(kernel.row_block), kM, w.group, 1, d, n);
}

/// The last 8 columns of d: the rows of A become lanes, the 8 rows of B come one by one, because a fused sum
/// does not tell its operands apart.
void eight_columns(const ChainKernel& kernel, Workspace& w, const std::uint8_t* a, const std::uint8_t* b,
                   float* d, int n) {
  kernel.pack_rows(Fp8::e4m3, b, kBlockK, 8, kBlockK, w.rows);
  for (int m = 0; m < kM; m += kGroupColumns) {
    kernel.pack_group(Fp8::e4m3, a + m * kBlockK, kBlockK, kGroupColumns, kBlockK, w.group);
    for (int j = 0; j < 8; ++j)
      for (int i = 0; i < kGroupColumns; ++i) w.columns[j * kGroupColumns + i] = d[(m + i) * n + j];
    kernel.run(w.rows, std::ptrdiff_t(kernel.row_block), 8, w.group, 1, w.columns, kGroupColumns);
    for (int j = 0; j < 8; ++j)
      for (int i = 0; i < kGroupColumns; ++i) d[(m + i) * n + j] = w.columns[j * kGroupColumns + i];
  }
}

template <Level level>
void wgmma_e4m3(const std::uint8_t* a, const std::uint8_t* b, float* d, int n, bool zero_d) {
  const ChainKernel& kernel = chain_kernel(ChainKind::wgmma, level);
  Workspace& w = workspace();
  if (zero_d) std::fill(d, d + kM * n, 0.0f);
  if (n >= kGroupColumns) kernel.pack_rows(Fp8::e4m3, a, kBlockK, kM, kBlockK, w.rows);
  int column = 0;
  for (; column + kGroupColumns <= n; column += kGroupColumns)
    sixteen_columns(kernel, w, b + column * kBlockK, d + column, n);
  if (column < n) eight_columns(kernel, w, a, b + column * kBlockK, d + column, n);
}

void mma_f16_plain(const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      std::uint32_t bits;
      std::memcpy(&bits, c + 8 * m + n, 4);
      bits = hmma_k16(a + 16 * m, b + 16 * n, AccumulatorFormat::f32, bits);
      std::memcpy(d + 8 * m + n, &bits, 4);
    }
}

constexpr MmaStep kPlain{wgmma_e4m3<Level::plain>, mma_f16_plain};
constexpr MmaStep kAvx2{wgmma_e4m3<Level::avx2>, mma_f16_avx2};
constexpr MmaStep kAvx512{wgmma_e4m3<Level::avx512>, mma_f16_avx2};

}  // namespace

const MmaStep& mma_step(Level level) {
  return level == Level::avx512 ? kAvx512 : level == Level::avx2 ? kAvx2 : kPlain;
}
const MmaStep& mma_step() { return mma_step(best_level()); }

}  // namespace moe::reference
