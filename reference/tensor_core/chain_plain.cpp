// The chains on any CPU: nothing is decoded ahead, every element goes through instructions.hpp.
#include <bit>

#include "reference/tensor_core/chain_levels.hpp"
#include "reference/tensor_core/hmma_packed.hpp"
#include "reference/tensor_core/instructions.hpp"

namespace moe::reference {
namespace {

using packed::GroupCodes;
using packed::RowCodes;

void pack_rows(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int rows, int k,
               std::byte* out) {
  auto* row = reinterpret_cast<RowCodes*>(out);
  for (int r = 0; r < rows; ++r)
    for (int k0 = 0; k0 < k; k0 += kBlockK, ++row) {
      packed::take_codes(codes + r * stride, stride, 1, 1, k0, k, row->code);
      row->format = format;
    }
}

void pack_group(Fp8 format, const std::uint8_t* codes, std::ptrdiff_t stride, int columns, int k,
                std::byte* out) {
  auto* group = reinterpret_cast<GroupCodes*>(out);
  for (int k0 = 0; k0 < k; k0 += kBlockK, ++group) {
    packed::take_codes(codes, stride, columns, kGroupColumns, k0, k, group->code[0]);
    group->format = format;
  }
}

struct Wgmma {
  static std::uint32_t step(const RowCodes& row, const GroupCodes& group, int j, AccumulatorFormat f,
                            std::uint32_t c) {
    return wgmma_k32(row.format, row.code, group.format, group.code[j], f, c);
  }
};

template <HmmaOrder order>
struct Hmma {
  static std::uint32_t step(const RowCodes& row, const GroupCodes& group, int j, AccumulatorFormat f,
                            std::uint32_t c) {
    return packed::hmma_block(order, row, group, j, f, c);
  }
};

template <class Instruction, AccumulatorFormat format, class T>
void run(const std::byte* rows, std::ptrdiff_t row_stride, int n_rows, const std::byte* group, int blocks,
         T* acc, std::ptrdiff_t acc_stride) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  const auto* columns = reinterpret_cast<const GroupCodes*>(group);
  for (int r = 0; r < n_rows; ++r) {
    const auto* row = reinterpret_cast<const RowCodes*>(rows + r * row_stride);
    for (int j = 0; j < kGroupColumns; ++j) {
      T& d = acc[r * acc_stride + j];
      std::uint32_t c = std::bit_cast<Bits>(d);
      for (int b = 0; b < blocks; ++b) c = Instruction::step(row[b], columns[b], j, format, c);
      d = std::bit_cast<T>(Bits(c));
    }
  }
}

template <class Instruction>
constexpr ChainKernel kernel() {
  return ChainKernel{sizeof(RowCodes),
                     sizeof(GroupCodes),
                     pack_rows,
                     pack_group,
                     run<Instruction, AccumulatorFormat::f32, float>,
                     run<Instruction, AccumulatorFormat::f16, std::uint16_t>};
}

}  // namespace

constinit const ChainKernel kWgmmaPlain = kernel<Wgmma>();
constinit const ChainKernel kHmmaPlain[2] = {kernel<Hmma<HmmaOrder::contiguous>>(),
                                             kernel<Hmma<HmmaOrder::interleaved4>>()};

}  // namespace moe::reference
