// Contract: router logits -> the top_k experts of each token, best first, and their weights, for every rule of
// fixtures/problem/routing.hpp. Ties go to the lower index, NaN counts as lowest. Up to 512 experts, 32 slots, 32 groups.
// grid * warps >= tokens; one warp a token; no shared memory.
// Plan: lane l holds experts l, l + 32, ... in registers. 1. scores by the rule (exact_math.hpp, so card and host agree);
//       2. selection keys: floats as ordered integers, so that one comparison orders numbers, NaN and what is excluded;
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
inline constexpr std::uint32_t kTaken = 0, kLowest = 1;   // keys: no candidate | NaN or a group left out

/// Larger key = larger float; -0 equals +0; every number is above kLowest.
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

inline constexpr float kMinusInfinity = -__builtin_inff();

/// score[i] of the experts this lane holds; `live` of them exist. NaN logits keep a NaN score outside the softmax sum.
__device__ __forceinline__ void score_logits(RouterRule rule, int live, float (&score)[kExpertsPerLane]) {
  if (rule == RouterRule::softmax || rule == RouterRule::softmax_grouped) {
    float largest = kMinusInfinity, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) largest = i < live && score[i] > largest ? score[i] : largest;
    largest = warp_max(largest);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (i >= live || score[i] != score[i]) continue;
      score[i] = exact::exp(score[i] - largest);
      sum += score[i];
    }
    sum = warp_sum_fixed(sum);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) score[i] = hopper::div_rn(score[i], sum);
    return;
  }
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    if (i >= live) continue;
    if (rule == RouterRule::sigmoid_bias || rule == RouterRule::sigmoid_grouped) score[i] = exact::sigmoid(score[i]);
    if (rule == RouterRule::sqrt_softplus) score[i] = hopper::sqrt_rn(exact::softplus(score[i]));
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
__device__ __forceinline__ float group_score(const TopkRouteParams& p, int live, const float (&select)[kExpertsPerLane]) {
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
    if (lane == g) mine = p.rule == RouterRule::sigmoid_grouped && size > 1 ? hopper::add_rn(best.first, best.second) : best.first;
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
  const bool in_use = threadIdx.x % 32 < std::uint32_t(p.top_k);
  if (p.rule == RouterRule::top1_sigmoid) score = exact::sigmoid(score);
  if (p.rule == RouterRule::topk_softmax) {
    const float largest = warp_max(in_use && score == score ? score : kMinusInfinity);
    score = exact::exp(score - largest);
  }
  if (p.renormalise != 0 || p.rule == RouterRule::topk_softmax) {
    float sum = 0.0f;
    for (int j = 0; j < p.top_k; ++j) sum += hopper::as_float(hopper::shfl_idx(hopper::as_bits(score), j));
    score = hopper::div_rn(score, sum > 0.0f ? sum : 1.0f);
  }
  return hopper::mul_rn(score, p.scale);
}

__device__ __forceinline__ void route_token(const TopkRouteParams& p, std::int64_t token) {
  const int lane = int(threadIdx.x % 32);
  const int live = lane < p.experts ? (p.experts - lane + 31) / 32 : 0;
  float score[kExpertsPerLane], select[kExpertsPerLane];
  std::uint32_t key[kExpertsPerLane];
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) score[i] = i < live ? p.logits[token * p.experts + lane + 32 * i] : 0.0f;
  score_logits(p.rule, live, score);
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    select[i] = i < live && p.bias != nullptr ? hopper::add_rn(score[i], p.bias[lane + 32 * i]) : score[i];
    key[i] = i < live ? ordered_key(select[i]) : kTaken;
  }
  if (p.rule == RouterRule::softmax_grouped || p.rule == RouterRule::sigmoid_grouped) {
    const std::uint32_t kept = kept_groups(p, group_score(p, live, select));
    const int size = p.experts / p.groups;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (i < live && !(kept >> ((lane + 32 * i) / size) & 1u)) key[i] = kLowest;
    }
  }

  std::uint32_t my_id = 0, my_score = 0;
  for (int slot = 0; slot < p.top_k; ++slot) {
    Candidate mine{kTaken, 0xFFFFFFFFu};
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) mine = better(mine, Candidate{key[i], std::uint32_t(lane + 32 * i)});
    const std::uint32_t best = warp_best(mine).index;
    float found = 0.0f;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (best != std::uint32_t(lane + 32 * i)) continue;
      key[i] = kTaken;
      found = score[i];
    }
    const std::uint32_t bits = hopper::shfl_idx(hopper::as_bits(found), int(best % 32));
    if (lane == slot) {
      my_id = best;
      my_score = bits;
    }
  }
  const float weight = slot_weight(p, hopper::as_float(my_score));
  if (lane < p.top_k) {
    p.ids[token * p.top_k + lane] = std::int32_t(my_id);
    p.weights[token * p.top_k + lane] = weight;
  }
}

__global__ void topk_route(const __grid_constant__ TopkRouteParams p) {
  hopper::grid_wait();
  hopper::grid_launch_dependents();
  const std::int64_t token = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (token < p.tokens) route_token(p, token);
}

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
