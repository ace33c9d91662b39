// Parameters of topk_route (topk_route.cuh).
#pragma once
#include <cstdint>

namespace moe::device {

/// fixtures/problem/routing.hpp, in the same order.
enum class RouterRule : std::int32_t {
  softmax,
  softmax_grouped,
  sigmoid_bias,
  sigmoid_grouped,
  sqrt_softplus,
  top1_sigmoid,
  topk_softmax,
};

inline constexpr int kMaxRouterExperts = 512, kMaxTopK = 32, kMaxRouterGroups = 32;

struct TopkRouteParams {
  const float* logits = nullptr;  // [tokens, experts]
  const float* bias = nullptr;    // [experts], added for selection only; null = none
  std::int32_t* ids = nullptr;    // out [tokens, top_k], best first
  float* weights = nullptr;       // out [tokens, top_k]
  std::int64_t tokens = 0;
  std::int32_t experts = 0, top_k = 0;
  RouterRule rule = RouterRule::softmax;
  std::int32_t groups = 1, topk_groups = 1;
  std::int32_t renormalise = 1;
  float scale = 1;  // routed scaling factor
};

}  // namespace moe::device
