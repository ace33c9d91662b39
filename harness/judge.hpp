// Is what a kernel gave right? Every stage is judged on the kernel's own previous output: to the bit where
// its Semantics is declared or the data leave every correct kernel one answer, else by the probable bound
// inside the hard one; a kernel that shows only `out` is judged by the intervals carried through the layer.
#pragma once
#include <cstdint>
#include <optional>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/tensor.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

struct JudgePlan {
  std::optional<Semantics> semantics;  // what the kernel declares or what was inferred; empty = nothing
  bool by_interval = false;            // use intervals although the Semantics is declared
  bool own_router =
      false;            // the Semantics was inferred behind the router: its scores are not judged to the bit
  double budget = 2e9;  // multiply-adds of GEMM rows to judge; beyond it a seeded sample of rows
  int threads = 1;
};

/// The verdict without speed, model and replay. `outputs` are canonical tensors (fixtures/README.md).
Verdict judge(const Case& c, const TensorSet& inputs, const TensorSet& outputs, const JudgePlan& plan);

}  // namespace moe::harness
