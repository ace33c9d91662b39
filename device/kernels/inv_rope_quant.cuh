// Contract: fixtures/README.md, "inv_rope_quant, to the bit". bf16 heads of 512 -> inverse rotation of the
// last 64 in fp32 -> e4m3 codes and power-of-two scales of four groups of 128, token-minor and padded to four
// tokens with zeros. grid = ceil(tokens / 4) * ceil(heads / kRopeHeads), kRopeTokens warps. Plan: a warp
// takes one token and kRopeHeads heads, whose loads are all under way before the first is used; a lane holds
// columns 8 l .. and 256 + 8 l .., so that 16 lanes share a scale and every access of a warp is whole
// sectors. Lanes 24 to 31 hold the rotated pairs, both values of each. Scales go through shared memory,
// because four tokens of one row of scales are one 16-byte store. A warp whose token is padding stores no
// codes and leaves its scales zero.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/inv_rope_quant_params.hpp"
#include "device/kernels/quantize_row.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr int kRopeDim = 512, kHalfDim = 256, kFirstTurningLane = 24, kQuarters = 4;

  /// The rotations of four pairs.
  struct FourTurns {
    float cos[4], sin[4];
  };

  __device__ __forceinline__ void load_floats4(float(&v)[4], const float* at) {
    const uint4 raw = *reinterpret_cast<const uint4*>(at);
    v[0] = hopper::as_float(raw.x), v[1] = hopper::as_float(raw.y);
    v[2] = hopper::as_float(raw.z), v[3] = hopper::as_float(raw.w);
  }

  __device__ __forceinline__ void turn_back(float(&v)[kVector], const FourTurns& turns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float even = v[2 * i], odd = v[2 * i + 1], c = turns.cos[i];
      const float s = planted(Fault::rope_turned_forward, -turns.sin[i], turns.sin[i]);
      v[2 * i] = hopper::fma_rn(even, c, hopper::mul_rn(odd, s));
      v[2 * i + 1] = hopper::fma_rn(odd, c, -hopper::mul_rn(even, s));
    }
  }

  /// Exponent of the smallest power of two that is at least max(amax, floor) / 448.
  __device__ __forceinline__ std::uint32_t rope_exponent(float amax) {
    constexpr float kInverse = 1.0f / 448.0f;
    return encode_ue8m0_up(hopper::mul_rn(amax > kAmaxFloor ? amax : kAmaxFloor, kInverse));
  }

  struct InvRopeQuant {
    using Params = InvRopeQuantParams;

    /// `exponents`: [head][quarter][token] of this CTA.
    static __device__ __forceinline__ void quantise_half(const Params& p, float (&v)[kVector], int half,
                                                         std::uint8_t* codes, std::uint32_t* exponents) {
      const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
      float amax = lanes_max_magnitude<kLanesPerBlock>(max_magnitude(v));
      if (planted(Fault::rope_amax_of_two_blocks)) amax = lanes_max_magnitude<32>(amax);
      const std::uint32_t exponent = rope_exponent(amax);
      const float scale = hopper::as_float(exponent << 23);
      store_codes8(codes + half * kHalfDim + lane * kVector, encode8(v, hopper::div_rn(1.0f, scale)),
                   kVector);
      if (lane % kLanesPerBlock == 0)
        exponents[(2 * half + lane / kLanesPerBlock) * kRopeTokens + warp] = exponent;
    }

    static __device__ __forceinline__ void store_scales(const Params& p, std::int64_t quad,
                                                        std::int64_t first_head,
                                                        const std::uint32_t* exponents) {
      const int rows = p.packed != 0 ? kRopeHeads : kRopeHeads * kQuarters;
      for (int row = int(threadIdx.x); row < rows; row += int(blockDim.x)) {
        const int per_head = p.packed != 0 ? 1 : kQuarters;
        const std::int64_t head = first_head + row / per_head;
        if (head >= std::int64_t(p.groups) * p.heads_per_group) break;
        std::uint32_t words[kRopeTokens];
#pragma unroll
        for (int t = 0; t < kRopeTokens; ++t) {
          words[t] = 0;
          if (p.packed == 0) {
            words[t] = exponents[row * kRopeTokens + t] << 23;
          } else {
            for (int q = 0; q < kQuarters; ++q)
              words[t] |= exponents[(row * kQuarters + q) * kRopeTokens + t]
                          << planted(Fault::rope_exponents_reversed, 8 * (kQuarters - 1 - q), 8 * q);
          }
        }
        const std::int64_t group = head / p.heads_per_group, local = head % p.heads_per_group;
        std::uint32_t* at = p.scales + group * p.scale_group +
                            (local * per_head + row % per_head) *
                                planted(Fault::rope_scale_lines_not_padded, p.tokens, p.scale_row) +
                            quad * kRopeTokens;
        *reinterpret_cast<uint4*>(at) = uint4{words[0], words[1], words[2], words[3]};
      }
    }

    static __device__ __forceinline__ void run(const Params& p) {
      auto* exponents = reinterpret_cast<std::uint32_t*>(hopper::dynamic_smem());
      const std::int64_t heads = std::int64_t(p.groups) * p.heads_per_group;
      const std::int64_t blocks = (heads + kRopeHeads - 1) / kRopeHeads;
      const std::int64_t quad = blockIdx.x / blocks, first_head = (blockIdx.x % blocks) * kRopeHeads;
      const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
      const std::int64_t token = quad * kRopeTokens + warp;
      const bool turns = lane >= kFirstTurningLane;
      hopper::grid_wait();
      hopper::grid_launch_dependents();

      const bool present = token < planted(Fault::rope_token_tail_stored, p.tokens + 1, p.tokens);
      if (present) {  // the same for a whole warp
        uint4 raw[kRopeHeads][2];
#pragma unroll
        for (int h = 0; h < kRopeHeads; ++h) {
          const std::uint16_t* row = p.o + token * p.o_token + (first_head + h) * p.o_head + lane * kVector;
          const std::int64_t count = first_head + h < heads ? kVector : 0;
          raw[h][0] = load_raw_bf16x8(row, count);
          raw[h][1] = load_raw_bf16x8(row + kHalfDim, count);
        }
        FourTurns turn{};
        if (turns) {
          const float* table =
              p.cos_sin +
              planted(Fault::rope_position_is_token, token, std::int64_t(p.positions[token])) *
                  p.cos_sin_row +
              4 * (lane - kFirstTurningLane);
          load_floats4(turn.cos, table + planted(Fault::rope_sines_before_cosines, 32, 0));
          load_floats4(turn.sin, table + planted(Fault::rope_sines_before_cosines, 0, 32));
        }
#pragma unroll
        for (int h = 0; h < kRopeHeads; ++h) {
          const std::int64_t head = first_head + h;
          if (head >= heads && !planted(Fault::rope_head_tail_stored)) break;
          std::uint8_t* codes = p.codes + head / p.heads_per_group * p.codes_group + token * p.codes_token +
                                head % p.heads_per_group * kRopeDim;
          std::uint32_t* mine = exponents + h * kQuarters * kRopeTokens;
          float v[kVector];
          widen_bf16x8(raw[h][0], v);
          quantise_half(p, v, 0, codes, mine);
          widen_bf16x8(raw[h][1], v);
          if (turns) turn_back(v, turn);
          quantise_half(p, v, 1, codes, mine);
        }
      } else {
        if (!planted(Fault::rope_padding_not_zeroed))
          for (int i = lane; i < kRopeHeads * kQuarters; i += 32) exponents[i * kRopeTokens + warp] = 0;
      }
      if (!planted(Fault::rope_scales_read_before_barrier)) hopper::cta_sync();
      store_scales(p, quad, first_head, exponents);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
