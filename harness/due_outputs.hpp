// Which tensors does an op owe, and of what type and shape? The shapes of fixtures/README.md: checked before
// anything reads a kernel's bytes, and prepared for a kernel that writes in place.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

struct DueTensor {
  std::string name;
  DType type = DType::bf16;
  std::vector<std::int64_t> shape;
  std::int64_t size() const;  // elements
};

/// Of ops whose later stages are judged on earlier outputs; empty for grouped_gemm and align, whose outputs
/// are judged on inputs alone.
std::vector<DueTensor> due_outputs(const Problem& problem);

/// Of every op that has a generator; the shapes of grouped_gemm's and align's follow from the inputs.
std::vector<DueTensor> all_due_outputs(const Case& c, const TensorSet& inputs);

/// The names alone, of any problem of the op: what a kernel may say that it shows.
std::vector<std::string_view> output_names(Op op);

/// One line about the first tensor that is missing or misshapen; empty = all are as due.
std::string first_misfit(const std::vector<DueTensor>& due, const TensorSet& outputs);

}  // namespace moe::harness
