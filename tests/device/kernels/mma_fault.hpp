// What does the kernel take in which one lane misses an mma.sync? missing_lane = -1: none does.
#pragma once

namespace moe::test {

struct MmaFaultParams {
  float* out;
  int missing_lane;
};
void run_mma_fault(const void* params);
void run_redux_fault(const void* params);  // the same with a redux.sync; out f32 [32]

}  // namespace moe::test
