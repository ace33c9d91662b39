// How does a test get tensors that it may spoil? Copies with memory of their own; a Tensor's own copy shares
// its bytes.
#pragma once
#include <cstring>

#include "fixtures/problem/tensor.hpp"

namespace moe {

inline Tensor own_copy(const Tensor& t) {
  Tensor copy(t.name(), t.dtype(), t.shape());
  std::memcpy(copy.data(), t.data(), t.bytes());
  return copy;
}

inline TensorSet own_copy(const TensorSet& set) {
  TensorSet copy;
  for (const Tensor& t : set.all()) copy.add(own_copy(t));
  return copy;
}

}  // namespace moe
