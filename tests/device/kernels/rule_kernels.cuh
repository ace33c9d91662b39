// Instrumented: what the kernels of rule_kernels.hpp share. A stage is a tile of A and behind it one of B.
#pragma once
#include "device/hopper/hopper.hpp"
#include "tests/device/kernels/rule_kernels.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  using hopper::fence_proxy_async;

  __device__ __forceinline__ int thread() { return int(threadIdx.x); }
  __device__ __forceinline__ int warp() { return int(threadIdx.x) / 32; }
  __device__ __forceinline__ int lane() { return int(threadIdx.x) % 32; }
  __device__ __forceinline__ std::uint8_t* tile_a(int stage) {
    return hopper::dynamic_smem() + stage * kRuleStage;
  }
  __device__ __forceinline__ std::uint8_t* tile_b(int stage) { return tile_a(stage) + kRuleBytesA; }
  __device__ __forceinline__ std::uint64_t a_of(int stage) { return hopper::desc_sw128(tile_a(stage)); }
  __device__ __forceinline__ std::uint64_t b_of(int stage) { return hopper::desc_sw128(tile_b(stage)); }
  __device__ __forceinline__ float* words() { return reinterpret_cast<float*>(hopper::dynamic_smem()); }
  __device__ __forceinline__ std::uint64_t* bar(int i) {
    return reinterpret_cast<std::uint64_t*>(hopper::dynamic_smem() + kRuleBarriers) + i;
  }
  __device__ __forceinline__ void init(int count) {
    if (thread() == 0) {
      for (int i = 0; i < 3; ++i) hopper::mbar_init(bar(i), std::uint32_t(count));
      hopper::fence_mbar_init();
    }
    hopper::cta_sync();
  }
  /// Both tiles of stage i, which signal mbarrier i.
  __device__ __forceinline__ void load(const RuleParams& p, int stage, std::uint64_t* signal) {
    hopper::mbar_arrive_expect_tx(signal, kRuleStage);
    hopper::tma_load_2d(tile_a(stage), &p.a, signal, 0, 0);
    hopper::tma_load_2d(tile_b(stage), &p.b, signal, 0, 0);
  }
  __device__ __forceinline__ void two_stages(const RuleParams& p) {
    init(1);
    for (int i = 0; i < 2; ++i) {
      if (thread() == 0) load(p, i, bar(i));
      hopper::mbar_wait(bar(i), 0);
    }
  }
}
template <void (*kKernel)(const RuleParams)>
void run_rule(const void* params) {
  kKernel(*static_cast<const RuleParams*>(params));
}
}  // namespace moe::test
