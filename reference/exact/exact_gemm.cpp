#include "reference/exact/exact_gemm.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/exact/promotion.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;  // rows that share one decoding of the weights
constexpr int kPieceK = 128;               // k's decoded at once: 16 columns of them stay in the L1 cache

/// Memory for packed operands.
class PackedBuffer {
 public:
  explicit PackedBuffer(std::size_t bytes) : data_(new (std::align_val_t(64)) std::byte[bytes]) {}
  std::byte* get() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  std::unique_ptr<std::byte[], Delete> data_;
};

void require_promotion(const Semantics& s, const QuantScheme& scheme) {
  const int p = s.promote_k;
  const bool fits =
      scheme.block() ? p > 0 && kScaleBlock % p == 0 && p % kBlockK == 0 : p >= 0 && p % kBlockK == 0;
  if (fits) return;
  throw BadInput("promote_k = " + std::to_string(p) +
                 (scheme.block() ? ": a block128 chain is promoted every 32, 64 or 128"
                                 : ": must be 0 or a multiple of 32"));
}

/// Everything that does not change from column group to column group.
struct Plan {
  const Semantics& semantics;
  const GemmOperands& in;
  const ChainKernel& kernel;
  PromoteBlock promote;
  int segment;  // k's of a chain

  std::ptrdiff_t row_stride() const { return std::ptrdiff_t(std::size_t(k_blocks(in.k)) * kernel.row_block); }
  std::int64_t source_row(std::int64_t r) const { return in.a_rows != nullptr ? in.a_rows[r] : r; }
};

Plan make_plan(const Semantics& s, const GemmOperands& in, Level level) {
  require_promotion(s, in.scheme);
  ChainKind kind = ChainKind::wgmma;
  if (s.accumulator == Accumulator::hmma)
    kind = s.hmma_order == HmmaOrder::contiguous ? ChainKind::hmma_contiguous : ChainKind::hmma_interleaved4;
  const int segment = s.promote_k != 0 ? s.promote_k : int(std::max<std::int64_t>(in.k, 1));
  return Plan{s, in, chain_kernel(kind, level), promote_block(s.scale_order, level), segment};
}

/// The sums of up to kRowsAtOnce rows and 16 columns while K goes by.
struct Sums {
  alignas(64) float part[kRowsAtOnce * kGroupColumns];
  alignas(64) float acc[kRowsAtOnce * kGroupColumns];
};

/// A chain has ended at k1 (exclusive): its result joins the sum, and the next one starts from zero.
void end_segment(const Plan& plan, std::int64_t row0, std::int64_t rows, std::int64_t column, std::int64_t k1,
                 Sums& sums) {
  const GemmOperands& in = plan.in;
  const std::int64_t block = (k1 - 1) / kScaleBlock;
  const bool scaled = in.scheme.block();
  const float w_scale = scaled ? in.w_scale.at(column, block) : 0.0f;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* part = sums.part + r * kGroupColumns;
    float* acc = sums.acc + r * kGroupColumns;
    if (scaled)
      plan.promote(part, in.a_scale.at(plan.source_row(row0 + r), block), w_scale, acc);
    else if (plan.semantics.promote_k == 0)
      std::copy(part, part + kGroupColumns, acc);
    else
      promote_plain_sum(part, acc);
  }
  std::fill(sums.part, sums.part + rows * kGroupColumns, 0.0f);
}

/// What follows the sum over K, for one element.
float finish(const Plan& plan, std::int64_t row, std::int64_t column, float acc) {
  const GemmOperands& in = plan.in;
  float y = acc;
  if (!in.scheme.block())
    y = scale_chain(plan.semantics.scale_order, y, in.a_scale.at(plan.source_row(row), 0),
                    in.w_scale.at(column, 0));
  if (in.bias != nullptr) y = y + in.bias[column];
  if (in.row_weight != nullptr) y = y * in.row_weight[row];
  return y != y ? bits_float(0x7FFFFFFFu) : y;
}

void store(float value, float* to) { *to = value; }
void store(float value, std::uint16_t* to) { *to = encode_bf16(value); }

/// 16 columns of a block of packed rows, over all of K.
template <class T>
void column_group(const Plan& plan, const std::byte* rows_packed, std::int64_t row0, std::int64_t rows,
                  std::int64_t column, T* out) {
  const GemmOperands& in = plan.in;
  const int columns = int(std::min<std::int64_t>(kGroupColumns, in.n - column));
  const auto sums = std::make_unique<Sums>();
  std::fill(sums->part, sums->part + rows * kGroupColumns, 0.0f);
  std::fill(sums->acc, sums->acc + rows * kGroupColumns, 0.0f);
  const PackedBuffer group(std::size_t(kPieceK / kBlockK) * plan.kernel.group_block);

  for (std::int64_t segment0 = 0; segment0 < in.k; segment0 += plan.segment) {
    const std::int64_t segment1 = std::min<std::int64_t>(in.k, segment0 + plan.segment);
    for (std::int64_t k0 = segment0; k0 < segment1; k0 += kPieceK) {
      const int k = int(std::min<std::int64_t>(kPieceK, segment1 - k0));
      plan.kernel.pack_group(Fp8::e4m3, in.w + column * in.ldw + k0, in.ldw, columns, k, group.get());
      const std::byte* piece = rows_packed + std::size_t(k0 / kBlockK) * plan.kernel.row_block;
      plan.kernel.run(piece, plan.row_stride(), int(rows), group.get(), k_blocks(k), sums->part,
                      kGroupColumns);
    }
    end_segment(plan, row0, rows, column, segment1, *sums);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j)
      store(finish(plan, row0 + r, column + j, sums->acc[r * kGroupColumns + j]),
            out + (row0 + r) * in.n + column + j);
}

template <class T>
void gemm(const Semantics& semantics, const GemmOperands& in, T* out, int threads, Level level) {
  const Plan plan = make_plan(semantics, in, level);
  if (in.rows == 0 || in.n == 0) return;
  const PackedBuffer packed(std::size_t(std::min(in.rows, kRowsAtOnce)) * std::size_t(plan.row_stride()) +
                            64);
  const std::int64_t groups = (in.n + kGroupColumns - 1) / kGroupColumns;
  for (std::int64_t row0 = 0; row0 < in.rows; row0 += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, in.rows - row0);
    for (std::int64_t r = 0; r < rows; ++r)
      plan.kernel.pack_rows(Fp8::e4m3, in.a + plan.source_row(row0 + r) * in.lda, in.lda, 1, int(in.k),
                            packed.get() + r * plan.row_stride());
    parallel_for(groups, threads, [&](std::int64_t g) {
      column_group(plan, packed.get(), row0, rows, g * kGroupColumns, out);
    });
  }
}

}  // namespace

ScaleView activation_scales(const QuantScheme& scheme, const float* data, std::int64_t k, std::int64_t ld) {
  if (scheme.tensor()) return {data, 0, 0, 1};
  if (!scheme.block()) return {data, 1, 0, 1};
  if (scheme.scale_layout == ScaleLayout::mn_major) return {data, 1, ld, 1};
  return {data, (k + kScaleBlock - 1) / kScaleBlock, 1, 1};
}

ScaleView weight_scales(const QuantScheme& scheme, const float* data, std::int64_t k) {
  if (scheme.tensor()) return {data, 0, 0, 1};
  if (!scheme.block()) return {data, 1, 0, 1};
  return {data, (k + kScaleBlock - 1) / kScaleBlock, 1, kScaleBlock};
}

void exact_gemm(const Semantics& semantics, const GemmOperands& operands, float* out, int threads,
                Level level) {
  gemm(semantics, operands, out, threads, level);
}
void exact_gemm_bf16(const Semantics& semantics, const GemmOperands& operands, std::uint16_t* out,
                     int threads, Level level) {
  gemm(semantics, operands, out, threads, level);
}

}  // namespace moe::reference
