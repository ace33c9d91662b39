// Contract: router logits -> the top_k experts of each token, best first, and their weights, for every rule
// of fixtures/problem/routing.hpp, to the bit (fixtures/README.md, "Routers, to the bit"). Ties go to the
// lower index, NaN counts as -infinity. Up to 512 experts, 32 slots, 32 groups. grid * warps >= tokens; one
// warp a token; no shared memory. Plan: lane l holds experts l, l + 32, ... in registers, in a body compiled
// for 1, 2, 4, 8 and 16 experts a lane: a lone token is a chain of dependent steps, so the body is short, its
// loads go out together, and every search over the warp is one redux.sync.
//       1. scores by the rule (exact_math.hpp, so card and host agree);
//       2. selection keys: floats as ordered integers, so that one comparison orders numbers, NaN and what is
//       excluded;
//       3. grouped rules keep the best groups (topk_groups.cuh);
//       4. top_k times the largest key of the warp and its lowest expert; lane j keeps slot j;
//       5. weights: renormalise, scale.
// Sums run in a fixed order: lanes' own experts ascending, then a butterfly; slots in order.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/exact_math.hpp"
#include "device/kernels/topk_groups.cuh"
#include "device/kernels/topk_route_params.hpp"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
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

  /// What a lane knows of its experts lane + 32 * i; those past the last expert have score 0 and key kTaken.
  template <int E>
  struct LaneExperts {
    float score[E];        // the logit at first
    float bias[E];         // 0 where the rule has none
    std::uint32_t key[E];  // selection key
    int live;              // experts of this lane
  };

  template <int E>
  __device__ __forceinline__ void load_experts(const TopkRouteParams& p, std::int64_t token,
                                               LaneExperts<E>& x) {
    const int lane = int(threadIdx.x % 32);
    const bool biased = p.bias != nullptr && selects_with_bias(p.rule);
    const float* logits = p.logits + token * p.experts;
    x.live = lane < p.experts ? (p.experts - lane + 31) / 32 : 0;
#pragma unroll
    for (int i = 0; i < E; ++i) x.score[i] = i < x.live ? logits[lane + 32 * i] : 0.0f;
#pragma unroll
    for (int i = 0; i < E; ++i) x.bias[i] = biased && i < x.live ? p.bias[lane + 32 * i] : 0.0f;
  }

  /// Softmax over the warp's scores; what is not finite after the shift counts as 0.
  template <int E>
  __device__ __forceinline__ void softmax(LaneExperts<E> & x) {
    std::uint32_t own = kLowest;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const std::uint32_t key = i < x.live ? ordered_key(x.score[i]) : kLowest;
      own = key > own ? key : own;
    }
    const float largest = value_of_key(hopper::redux_max(own));
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const float shifted = hopper::sub_rn(x.score[i], largest), e = exact::exp(shifted);
      x.score[i] = i < x.live && shifted == shifted ? e : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < E; ++i) sum = hopper::add_rn(sum, x.score[i]);  // + 0 past the last expert: no change
    sum = warp_sum_fixed(sum);
#pragma unroll
    for (int i = 0; i < E; ++i) x.score[i] = sum > 0.0f ? hopper::div_rn(x.score[i], sum) : 0.0f;
  }

  /// Logits in `score` become scores, and keys are made of them.
  template <int E>
  __device__ __forceinline__ void score_experts(const TopkRouteParams& p, LaneExperts<E>& x) {
    std::uint32_t numbers = 0;  // bit i: logit i is no NaN
#pragma unroll
    for (int i = 0; i < E; ++i) numbers |= std::uint32_t(x.score[i] == x.score[i]) << i;
    if (softmax_first(p.rule)) {
      softmax(x);
    } else if (p.rule == RouterRule::sqrt_softplus) {
#pragma unroll
      for (int i = 0; i < E; ++i) x.score[i] = hopper::sqrt_rn(exact::softplus(x.score[i]));
    } else if (selects_with_bias(p.rule)) {
      // exact::sigmoid in two passes: a division branches, and the exponentials shall overlap
#pragma unroll
      for (int i = 0; i < E; ++i) x.score[i] = 1.0f + exact::exp(-x.score[i]);
#pragma unroll
      for (int i = 0; i < E; ++i) x.score[i] = 1.0f / x.score[i];
    }
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const bool number = numbers >> i & 1u;
      float select = x.score[i];
      if (selects_with_bias(p.rule)) {
        x.score[i] = number ? x.score[i] : 0.0f;
        select = p.bias == nullptr ? x.score[i] : hopper::add_rn(x.score[i], x.bias[i]);
      }
      if (planted(Fault::bias_leaks_into_weight)) x.score[i] = select;
      const std::uint32_t no_number = planted(Fault::nan_logit_selectable, 0xFFC00000u, kLowest);
      x.key[i] = i < x.live ? (number ? ordered_key(select) : no_number) : kTaken;
    }
  }

  /// Lane j's weight from the score of the expert in slot j.
  __device__ __forceinline__ float slot_weight(const TopkRouteParams& p, float score) {
    constexpr int kTogether = 8;
    const bool after = p.rule == RouterRule::topk_softmax;
    const float first = hopper::as_float(hopper::shfl_idx(hopper::as_bits(score), 0));
    if (after) score = score == score ? exact::exp(hopper::sub_rn(score, first)) : 0.0f;
    if (p.rule == RouterRule::top1_sigmoid) score = score == score ? exact::sigmoid(score) : 0.0f;
    if (after ||
        ((p.renormalise != 0 || planted(Fault::renormalise_ignored)) && p.rule != RouterRule::top1_sigmoid)) {
      float sum = 0.0f;
      for (int base = 0; base < p.top_k; base += kTogether) {
#pragma unroll
        for (int j = base; j < base + kTogether; ++j) {
          const float slot = hopper::as_float(hopper::shfl_idx(hopper::as_bits(score), j));
          if (j < p.top_k) sum = hopper::add_rn(sum, slot);
        }
      }
      const float divisor =
          after || softmax_first(p.rule) ? (sum == 0.0f ? 1.0f : sum) : hopper::add_rn(sum, 1e-20f);
      score = hopper::div_rn(score, divisor);
    }
    return hopper::mul_rn(score, planted(Fault::router_scale_dropped, 1.0f, p.scale));
  }

  /// Lane j gets the expert of slot j: the top_k best by (key, index).
  template <int E>
  __device__ __forceinline__ std::uint32_t select_slots(const TopkRouteParams& p, LaneExperts<E>& x) {
    const std::uint32_t lane = threadIdx.x % 32;
    std::uint32_t mine = 0;
    for (int slot = 0; slot < p.top_k; ++slot) {
      std::uint32_t own = kTaken, index = 0xFFFFFFFFu;
#pragma unroll
      for (int i = 0; i < E; ++i) own = x.key[i] > own ? x.key[i] : own;
      if (planted(Fault::search_left_by_lanes) && x.live == 0) break;
      const std::uint32_t best = hopper::redux_max(own);
#pragma unroll
      for (int i = E - 1; i >= 0; --i) index = x.key[i] == best ? lane + 32 * std::uint32_t(i) : index;
      std::uint32_t expert = hopper::redux_min(index);
      if (planted(Fault::ties_to_the_higher_expert)) expert = hopper::redux_max(index + 1) - 1;
#pragma unroll
      for (int i = 0; i < E; ++i) x.key[i] = expert == lane + 32 * std::uint32_t(i) ? kTaken : x.key[i];
      mine = lane == std::uint32_t(slot) ? expert : mine;
    }
    return mine;
  }

  /// The score of `expert`, which another lane may hold.
  template <int E>
  __device__ __forceinline__ float score_of(const LaneExperts<E>& x, std::uint32_t expert) {
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const std::uint32_t found = hopper::shfl_idx(hopper::as_bits(x.score[i]), int(expert % 32));
      bits |= found & (0u - std::uint32_t(expert / 32 == std::uint32_t(i)));
    }
    return hopper::as_float(bits);
  }

  template <int E>
  __device__ __forceinline__ void route_token(const TopkRouteParams& p, std::int64_t token) {
    const int lane = int(threadIdx.x % 32);
    LaneExperts<E> x;
    load_experts(p, token, x);
    score_experts(p, x);
    bool selectable = true;
    if (p.rule == RouterRule::softmax_grouped || p.rule == RouterRule::sigmoid_grouped) {
      const GroupRule rule{p.experts / p.groups, p.groups, p.topk_groups,
                           p.rule == RouterRule::sigmoid_grouped};
      selectable = keep_groups(rule, x.key);
    }
    const std::uint32_t expert = select_slots(p, x);
    const float weight = slot_weight(p, score_of(x, expert));
    if (lane < p.top_k) {
      p.ids[token * p.top_k + lane] = selectable ? std::int32_t(expert) : lane;
      p.weights[token * p.top_k + lane] = selectable ? weight : hopper::div_rn(1.0f, float(p.top_k));
    }
  }

  struct TopkRoute {
    using Params = TopkRouteParams;
    static __device__ __forceinline__ void run(const Params& p) {
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      const std::int64_t token = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
      if (token >= p.tokens) return;
      if (p.experts <= 32) return route_token<1>(p, token);
      if (planted(Fault::router_body_too_small) && p.experts <= 128) return route_token<2>(p, token);
      if (p.experts <= 64) return route_token<2>(p, token);
      if (p.experts <= 128) return route_token<4>(p, token);
      if (p.experts <= 256) return route_token<8>(p, token);
      route_token<kMaxRouterExperts / 32>(p, token);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
