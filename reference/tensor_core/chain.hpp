// How are long chains of tensor-core instructions run fast on a CPU? Operands are decoded ("packed") once,
// then rows meet groups of 16 columns; every element is bit for bit what instructions.hpp gives.
//
// A packed operand is a sequence of k32 blocks. A row block serves one row, a group block 16 columns. k
// beyond the given length is zero, which changes no result of a chain that starts from a result or from +0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fixtures/problem/semantics.hpp"
#include "reference/tensor_core/number.hpp"

namespace moe::reference {

inline constexpr int kGroupColumns = 16;
inline constexpr int kBlockK = 32;
constexpr int k_blocks(std::int64_t k) { return int((k + kBlockK - 1) / kBlockK); }

/// Which instruction the chain consists of.
enum class ChainKind { wgmma, hmma_contiguous, hmma_interleaved4 };
/// The instruction set of the CPU that runs it.
enum class Level { plain, avx2, avx512 };
std::string_view name(Level level);

/// Packed memory starts at a multiple of 64 bytes.
struct ChainKernel {
  std::size_t row_block, group_block;  // bytes

  /// `rows` rows of k codes, `stride` bytes apart -> packed[row][k block].
  void (*pack_rows)(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
                    std::byte* packed);
  /// Up to 16 columns of k codes each, `stride` bytes apart -> packed[k block]; missing columns are zero.
  void (*pack_group)(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns, int k,
                     std::byte* packed);
  /// acc[row * acc_stride + 0..15] (+)= row * columns over `blocks` k32 blocks, f32; rows are row_stride
  /// bytes apart.
  void (*run)(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
              int blocks, float* acc, std::ptrdiff_t acc_stride);
  /// The same with an f16 accumulator (patterns).
  void (*run_f16)(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group,
                  int blocks, std::uint16_t* acc, std::ptrdiff_t acc_stride);
};

/// Whether this CPU can run `level`.
bool available(Level level);
/// The best available level.
Level best_level();
const ChainKernel& chain_kernel(ChainKind kind, Level level);

}  // namespace moe::reference
