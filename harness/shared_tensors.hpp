// How do tensors reach another process? Their bytes lie in a memory file, page-aligned, and a JSON list says
// what lies where. Groups that were never filled stay holes, so that a sparse weight tensor costs only its
// active experts.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// Writes the tensors from the start of `memory` (which is emptied first) and returns their description.
nlohmann::ordered_json put_tensors(int memory, const TensorSet& tensors);
/// Tensors over a private mapping of `memory`; they stay valid after the next put_tensors only when `copy` is
/// set.
TensorSet get_tensors(int memory, const nlohmann::ordered_json& description, bool copy);

}  // namespace moe::harness
