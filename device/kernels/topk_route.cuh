// Contract: router logits -> the top_k experts of each token, best first, and their weights, for every rule
// of fixtures/problem/routing.hpp, to the bit (fixtures/README.md, "Routers, to the bit"). Ties go to the
// lower index, NaN counts as -infinity. Up to 512 experts, 32 slots, 32 groups. grid * warps >= tokens; one
// warp a token; no shared memory. Plan: lane l holds experts l, l + 32, ... in registers. 1. scores by the
// rule (exact_math.hpp, so card and host agree);
//       2. selection keys: floats as ordered integers, so that one comparison orders numbers, NaN and what is
//       excluded;
//       3. grouped rules keep the best groups (score: the group's best, or the sum of its two best);
//       4. top_k times the largest key of the warp; lane j keeps slot j; 5. weights: renormalise, scale.
// Sums run in a fixed order: lanes' own experts ascending, then a butterfly; slots in order.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/exact_math.hpp"
#include "device/kernels/topk_route_params.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr int kExpertsPerLane = kMaxRouterExperts / 32;
  inline constexpr float kMinusInfinity = -__builtin_inff();
  inline constexpr std::uint32_t kTaken = 0,
                                 kLowest =
                                     0x007FFFFFu;  // keys: no candidate | -infinity, NaN, a group left out

  /// Larger key = larger float; -0 equals +0.
  __device__ __forceinline__ std::uint32_t ordered_key(float x) {
    if (x != x) return kLowest;
    const std::uint32_t bits = hopper::as_bits(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }

  struct Candidate {
    std::uint32_t key, index;
  };

  __device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
    return a.key > b.key || (a.key == b.key && a.index < b.index) ? a : b;
  }

  /// The best candidate of the warp, in every lane.
  __device__ __forceinline__ Candidate warp_best(Candidate mine) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      mine = better(mine, Candidate{hopper::shfl_xor(mine.key, step), hopper::shfl_xor(mine.index, step)});
    }
    return mine;
  }

  __device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const float other = hopper::shfl_xor(x, step);
      x = other > x ? other : x;
    }
    return x;
  }

  __device__ __forceinline__ float warp_sum_fixed(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = hopper::add_rn(x, hopper::shfl_xor(x, step));
    return x;
  }

  __device__ __forceinline__ bool softmax_first(RouterRule rule) {
    return rule == RouterRule::softmax || rule == RouterRule::softmax_grouped;
  }
  __device__ __forceinline__ bool selects_with_bias(RouterRule rule) {
    return rule == RouterRule::sigmoid_bias || rule == RouterRule::sigmoid_grouped ||
           rule == RouterRule::sqrt_softplus;
  }

  /// Softmax over the warp's `score`; what is not finite after the shift counts as 0.
  __device__ __forceinline__ void softmax(int live, float(&score)[kExpertsPerLane]) {
    float largest = kMinusInfinity, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) largest = i < live && score[i] > largest ? score[i] : largest;
    largest = warp_max(largest);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (i >= live) continue;
      const float shifted = hopper::sub_rn(score[i], largest);
      score[i] = shifted == shifted ? exact::exp(shifted) : 0.0f;
      sum = hopper::add_rn(sum, score[i]);
    }
    sum = warp_sum_fixed(sum);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) score[i] = sum > 0.0f ? hopper::div_rn(score[i], sum) : 0.0f;
  }

  /// Scores, and what selection looks at, of the `live` experts of this lane whose logits are in `score`.
  __device__ __forceinline__ void score_experts(
      const TopkRouteParams& p, int live, float(&score)[kExpertsPerLane], float(&select)[kExpertsPerLane]) {
    std::uint32_t numbers = 0;  // bit i: logit i is no NaN
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) numbers |= std::uint32_t(score[i] == score[i]) << i;
    if (softmax_first(p.rule)) softmax(live, score);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (i >= live) continue;
      const bool number = numbers >> i & 1u;
      if (selects_with_bias(p.rule)) {
        const float x = p.rule == RouterRule::sqrt_softplus ? hopper::sqrt_rn(exact::softplus(score[i]))
                                                            : exact::sigmoid(score[i]);
        score[i] = number ? x : 0.0f;
        select[i] = p.bias == nullptr ? score[i]
                                      : hopper::add_rn(score[i], p.bias[threadIdx.x % 32 + 32 * unsigned(i)]);
      } else {
        select[i] = score[i];
      }
      if (!number || select[i] != select[i]) select[i] = kMinusInfinity;
    }
  }

  /// The two largest of a set of floats, NaN counted as -infinity.
  struct BestTwo {
    float first = kMinusInfinity, second = kMinusInfinity;
    __device__ __forceinline__ void add(float x) {
      if (x > first) {
        second = first;
        first = x;
      } else if (x > second) {
        second = x;
      }
    }
  };

  /// Lane g returns the score of group g: its best selection value, or the sum of its two best.
  __device__ __forceinline__ float group_score(const TopkRouteParams& p, int live,
                                               const float(&select)[kExpertsPerLane]) {
    const int lane = int(threadIdx.x % 32), size = p.experts / p.groups;
    float mine = kMinusInfinity;
    for (int g = 0; g < p.groups; ++g) {
      BestTwo best;
#pragma unroll
      for (int i = 0; i < kExpertsPerLane; ++i) {
        if (i < live && (lane + 32 * i) / size == g) best.add(select[i]);
      }
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        const float first = hopper::shfl_xor(best.first, step), second = hopper::shfl_xor(best.second, step);
        best.add(first);
        best.add(second);
      }
      if (lane == g)
        mine = p.rule == RouterRule::sigmoid_grouped && size > 1 ? hopper::add_rn(best.first, best.second)
                                                                 : best.first;
    }
    return mine;
  }

  /// Bit g set = group g stays: the topk_groups best, ties to the lower index.
  __device__ __forceinline__ std::uint32_t kept_groups(const TopkRouteParams& p, float score) {
    const std::uint32_t lane = threadIdx.x % 32;
    std::uint32_t key = lane < std::uint32_t(p.groups) ? ordered_key(score) : kTaken, kept = 0;
    for (int n = 0; n < p.topk_groups; ++n) {
      const Candidate best = warp_best({key, lane});
      kept |= 1u << best.index;
      if (lane == best.index) key = kTaken;
    }
    return kept;
  }

  /// Lane j's weight from the score of the expert in slot j.
  __device__ __forceinline__ float slot_weight(const TopkRouteParams& p, float score) {
    const bool after = p.rule == RouterRule::topk_softmax;
    const float first = hopper::as_float(hopper::shfl_idx(hopper::as_bits(score), 0));
    if (after) score = score == score ? exact::exp(hopper::sub_rn(score, first)) : 0.0f;
    if (p.rule == RouterRule::top1_sigmoid) score = score == score ? exact::sigmoid(score) : 0.0f;
    float sum = 0.0f;
    for (int j = 0; j < p.top_k; ++j) {
      sum = hopper::add_rn(sum, hopper::as_float(hopper::shfl_idx(hopper::as_bits(score), j)));
    }
    if (after || (p.renormalise != 0 && p.rule != RouterRule::top1_sigmoid)) {
      const float divisor =
          after || softmax_first(p.rule) ? (sum == 0.0f ? 1.0f : sum) : hopper::add_rn(sum, 1e-20f);
      score = hopper::div_rn(score, divisor);
    }
    return hopper::mul_rn(score, p.scale);
  }

  /// Leaves only the experts of the best groups selectable; false when no group has a finite score.
  __device__ __forceinline__ bool keep_groups(const TopkRouteParams& p, int live,
                                              const float(&select)[kExpertsPerLane],
                                              std::uint32_t(&key)[kExpertsPerLane]) {
    const int lane = int(threadIdx.x % 32), size = p.experts / p.groups;
    const float score = group_score(p, live, select);
    const std::uint32_t kept = kept_groups(p, score);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (i < live && !(kept >> ((lane + 32 * i) / size) & 1u)) key[i] = kLowest;
    }
    return hopper::ballot(lane < p.groups && __builtin_fabsf(score) < __builtin_inff()) != 0;
  }

  /// The top_k best by (key, index): lane j gets slot j's expert and its score.
  struct Slot {
    std::uint32_t id, score_bits;
  };

  __device__ __forceinline__ Slot select_slots(const TopkRouteParams& p, const float(&score)[kExpertsPerLane],
                                               std::uint32_t(&key)[kExpertsPerLane]) {
    const int lane = int(threadIdx.x % 32);
    Slot mine{0, 0};
    for (int slot = 0; slot < p.top_k; ++slot) {
      Candidate own{kTaken, 0xFFFFFFFFu};
#pragma unroll
      for (int i = 0; i < kExpertsPerLane; ++i)
        own = better(own, Candidate{key[i], std::uint32_t(lane + 32 * i)});
      const std::uint32_t best = warp_best(own).index;
      float found = 0.0f;
#pragma unroll
      for (int i = 0; i < kExpertsPerLane; ++i) {
        if (best != std::uint32_t(lane + 32 * i)) continue;
        key[i] = kTaken;
        found = score[i];
      }
      const std::uint32_t bits = hopper::shfl_idx(hopper::as_bits(found), int(best % 32));
      if (lane == slot) mine = {best, bits};
    }
    return mine;
  }

  __device__ __forceinline__ void route_token(const TopkRouteParams& p, std::int64_t token) {
    const int lane = int(threadIdx.x % 32);
    const int live = lane < p.experts ? (p.experts - lane + 31) / 32 : 0;
    float score[kExpertsPerLane], select[kExpertsPerLane];
    std::uint32_t key[kExpertsPerLane];
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i)
      score[i] = i < live ? p.logits[token * p.experts + lane + 32 * i] : 0.0f;
    score_experts(p, live, score, select);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) key[i] = i < live ? ordered_key(select[i]) : kTaken;
    bool selectable = true;
    if (p.rule == RouterRule::softmax_grouped || p.rule == RouterRule::sigmoid_grouped) {
      selectable = keep_groups(p, live, select, key);
    }
    const Slot slot = select_slots(p, score, key);
    const float weight = slot_weight(p, hopper::as_float(slot.score_bits));
    if (lane < p.top_k) {
      p.ids[token * p.top_k + lane] = selectable ? std::int32_t(slot.id) : lane;
      p.weights[token * p.top_k + lane] = selectable ? weight : hopper::div_rn(1.0f, float(p.top_k));
    }
  }

  struct TopkRoute {
    using Params = TopkRouteParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::int64_t token = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
      if (token < p.tokens) route_token(p, token);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
