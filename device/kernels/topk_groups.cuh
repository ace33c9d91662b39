// Which groups of experts may a router choose from? The grouped rules of topk_route: a warp holds the
// selection keys of one token, lane l those of experts l, l + 32, ...; a group's score is its best selection
// value or the sum of its two best, the topk_groups best groups stay, ties go to the lower index. A key is a
// float as an ordered integer.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  inline constexpr std::uint32_t kTaken = 0,
                                 kLowest =
                                     0x007FFFFFu;  // keys: no candidate | -infinity, NaN, a group left out

  /// Larger key = larger float; -0 equals +0.
  __device__ __forceinline__ std::uint32_t ordered_key(float x) {
    const std::uint32_t bits = hopper::as_bits(x + 0.0f);
    const std::uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return x == x ? key : kLowest;
  }

  /// The float of a key that is not kTaken.
  __device__ __forceinline__ float value_of_key(std::uint32_t key) {
    return hopper::as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
  }

  struct GroupRule {
    int size, groups, topk_groups;  // experts of a group, groups, how many stay
    bool two_best;                  // the score is the sum of the two best
  };

  /// The two largest keys of a set.
  struct BestTwo {
    std::uint32_t first = kTaken, second = kTaken;
    __device__ __forceinline__ void add(std::uint32_t key) {
      const std::uint32_t smaller = key < first ? key : first;
      first = key > first ? key : first;
      second = smaller > second ? smaller : second;
    }
  };

  /// Score of the group whose members the lanes hold, each lane the best two of its own.
  __device__ __forceinline__ float score_of_group(const GroupRule& rule, BestTwo own) {
    const std::uint32_t first = hopper::redux_max(own.first), holders = hopper::ballot(own.first == first);
    if (!rule.two_best || rule.size == 1) return value_of_key(first);
    const std::uint32_t winner = holders & (~holders + 1);  // the lowest lane that holds the best
    const bool won = winner >> (threadIdx.x % 32) & 1u;
    const std::uint32_t second = hopper::redux_max(won ? own.second : own.first);
    return hopper::add_rn(value_of_key(first), value_of_key(second));
  }

  /// Lane g returns the score of group g.
  template <int E>
  __device__ __forceinline__ float group_scores(const GroupRule& rule, const std::uint32_t(&key)[E],
                                                const int(&group)[E]) {
    const int lane = int(threadIdx.x % 32);
    float mine = -__builtin_inff();
    if (rule.size == 32) {  // a group is one register: its searches do not wait for each other
#pragma unroll
      for (int i = 0; i < E; ++i) {
        BestTwo own;
        own.first = key[i];
        const float score = score_of_group(rule, own);
        mine = lane == i && i < rule.groups ? score : mine;
      }
      return mine;
    }
    for (int g = 0; g < rule.groups; ++g) {
      BestTwo own;
#pragma unroll
      for (int i = 0; i < E; ++i) own.add(group[i] == g ? key[i] : kTaken);
      const float score = score_of_group(rule, own);
      mine = lane == g ? score : mine;
    }
    return mine;
  }

  /// Bit g set = group g stays: fewer than topk_groups are better. Lane g brings the score of group g.
  __device__ __forceinline__ std::uint32_t kept_groups(const GroupRule& rule, float score) {
    constexpr int kTogether = 8;  // exchanges in flight
    const int lane = int(threadIdx.x % 32);
    const std::uint32_t key = lane < rule.groups ? ordered_key(score) : kTaken;
    int better = 0;
    for (int base = 0; base < rule.groups; base += kTogether) {
#pragma unroll
      for (int g = base; g < base + kTogether; ++g) {
        const std::uint32_t other = hopper::shfl_idx(key, g);
        better += other > key || (other == key && g < lane) ? 1 : 0;
      }
    }
    return hopper::ballot((lane < rule.groups) & (better < rule.topk_groups));
  }

  /// Leaves only the experts of the best groups selectable; false when no group has a finite score.
  template <int E>
  __device__ __forceinline__ bool keep_groups(const GroupRule& rule, std::uint32_t(&key)[E]) {
    // e / size by a product: exact for e < 512 and size <= 512, as the reciprocal's excess stays below 2^-11
    constexpr std::uint32_t kShift = 20;
    const int lane = int(threadIdx.x % 32);
    const std::uint32_t size = std::uint32_t(rule.size), reciprocal = ((1u << kShift) + size - 1) / size;
    int group[E];
#pragma unroll
    for (int i = 0; i < E; ++i) group[i] = int(std::uint32_t(lane + 32 * i) * reciprocal >> kShift);
    const float score = group_scores(rule, key, group);
    const std::uint32_t kept = kept_groups(rule, score);
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (key[i] != kTaken && !(kept >> (group[i] & 31) & 1u))
        key[i] = planted(Fault::masked_score_is_zero, 0x80000000u, kLowest);
    }
    return hopper::ballot((lane < rule.groups) & (__builtin_fabsf(score) < __builtin_inff())) != 0;
  }

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
