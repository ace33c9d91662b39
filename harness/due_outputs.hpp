// Which tensors does an op owe, and of what type and size? The shapes of fixtures/README.md, checked before
// anything reads a kernel's bytes.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

struct DueTensor {
  std::string name;
  DType type = DType::bf16;
  std::int64_t size = 0;  // elements
};

/// Of ops whose later stages are judged on earlier outputs; empty for grouped_gemm and align, whose outputs
/// are judged on inputs alone.
std::vector<DueTensor> due_outputs(const Problem& problem);

/// One line about the first tensor that is missing or misshapen; empty = all are as due.
std::string first_misfit(const std::vector<DueTensor>& due, const TensorSet& outputs);

}  // namespace moe::harness
