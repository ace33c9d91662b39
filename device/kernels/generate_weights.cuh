// Contract: the weight codes that the host would draw (fixtures/problem/generated_values.hpp, the same
// bytes), written row by row. Any grid. Plan: sixteen neighbouring codes share one Philox block and leave in
// one 16-byte store; where a block crosses the end of a row, or a row is not aligned, its codes are written
// one by one.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/generate_weights_params.hpp"
#include "fixtures/problem/generated_values.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr int kCodesPerBlock = 16;

  struct GenerateWeights {
    using Params = GenerateWeightsParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::uint64_t end = p.first + std::uint64_t(p.rows) * std::uint64_t(p.columns);
      const std::uint64_t threads = std::uint64_t(gridDim.x) * blockDim.x;
      const std::uint64_t first_block = p.first / kCodesPerBlock;
      for (std::uint64_t block = first_block + std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
           block * kCodesPerBlock < end; block += threads) {
        write_block(p, block * kCodesPerBlock, end);
      }
    }

   private:
    static __device__ __forceinline__ void write_block(const Params& p, std::uint64_t index,
                                                       std::uint64_t end) {
      const Philox4 bits = random_block(p.seed, p.tensor, index / kCodesPerBlock);
      std::uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = codes_of_word(p.data, word_of(bits, w), index + 4 * std::uint64_t(w));
      if (index >= p.first && index + kCodesPerBlock <= end) {
        const std::uint64_t local = index - p.first, row = local / std::uint64_t(p.columns),
                            column = local % std::uint64_t(p.columns);
        std::uint8_t* at = p.codes + row * std::uint64_t(p.stride) + column;
        if (column + kCodesPerBlock <= std::uint64_t(p.columns) &&
            (reinterpret_cast<std::uintptr_t>(at) & 15u) == 0) {
          *reinterpret_cast<uint4*>(at) = uint4{words[0], words[1], words[2], words[3]};
          return;
        }
      }
#pragma unroll
      for (int i = 0; i < kCodesPerBlock; ++i) {
        const std::uint64_t place = index + std::uint64_t(i);
        if (place < p.first || place >= end) continue;
        const std::uint64_t row = (place - p.first) / std::uint64_t(p.columns),
                            column = (place - p.first) % std::uint64_t(p.columns);
        p.codes[row * std::uint64_t(p.stride) + column] = std::uint8_t(words[i / 4] >> (8 * (i % 4)));
      }
    }

    /// Codes of the four places from `index` on whose random bytes are `bits`; exact data look at the first
    /// byte only.
    static __device__ __forceinline__ std::uint32_t codes_of_word(int data, std::uint32_t bits,
                                                                  std::uint64_t index) {
      std::uint32_t codes = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t byte = data == kExactData ? bits & 0xFFu : bits >> (8 * i) & 0xFFu;
        codes |= std::uint32_t(code_of_byte(data, byte, index + std::uint64_t(i))) << (8 * i);
      }
      return codes;
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
