// Which small kernels break one rule of the machine each, or keep it in an unusual way? Plain host code; the
// line that breaks the rule ends in "// here" in its source.
#pragma once
#include <span>

#include "device/hopper/tensor_map.hpp"

namespace moe::test {

struct RuleParams {
  hopper::TensorMap a, b;  // e4m3 [64][512] in boxes of 64 rows x 128, [16][512] in boxes of 16 x 128; zeros
  const float* in;         // [1024]
  float* out;              // [1024]
  int zero = 0;
  const hopper::TensorMap* no_map = nullptr;
};

struct RuleKernel {
  const char* name;
  void (*run)(const void* params);
  unsigned block;
  const char* check;     // what is reported; null: the kernel is right
  bool has_line = true;  // false: the report names the place where threads wait
};
std::span<const RuleKernel> wgmma_rules();
std::span<const RuleKernel> barrier_rules();
std::span<const RuleKernel> thread_rules();

inline constexpr int kRuleBytesA = 64 * 128, kRuleBytesB = 16 * 128, kRuleStage = kRuleBytesA + kRuleBytesB;
inline constexpr int kRuleBarriers = 3 * kRuleStage, kRuleShared = kRuleBarriers + 256;

}  // namespace moe::test
