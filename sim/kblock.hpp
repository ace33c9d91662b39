// How long do the math warps of one CTA need for one k-block, and what holds them? Cycles of one SM; no
// waiting for memory in here.
//   wgmma:  max( both warpgroups at once, one warpgroup's chain + barrier, the loading thread )
//   mma:    max( conversions, f16 mma, fragment reads, issue slots ) of a scheduler + promotion + barrier
// The chain (half of it with two k-blocks in flight): four wgmma, their drain and the fp32 promotion follow
// one another in a warpgroup; two warpgroups overlap.
#pragma once
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/prediction.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

struct KblockCost {
  double cycles = 0;          // until the CTA can start the next k-block
  double instruction = 0;     // of which its tensor instructions (with conversions) take at least this
  double tensor_busy = 0;     // cycles the tensor pipe counts as active: N/2 a wgmma, 6/4 an f16 mma
  double tensor_ideal = 0;    // at the full rate of the data type that the instruction works on
  double shared = 0;          // bytes read from shared memory / 128 a cycle
  bool loader_bound = false;  // the loading thread is slower than the math
  Limit limit = Limit::tensor;
};
KblockCost kblock_cost(const Hardware& hardware, const GemmShape& gemm);

/// Cycles between a tile's last k-block and the CTA's next: accumulators to bf16, through shared memory,
/// stored.
double epilogue_cycles(const Hardware& hardware, const GemmShape& gemm);

}  // namespace moe::sim
