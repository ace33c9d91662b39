// What does an op do on a machine? A list of stages in stream order, and how its results come back. A builder
// (one a kind of op) allocates and fills the buffers of one set of inputs and returns this; the session runs
// and times it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/machine.hpp"
#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::device {

/// How the stages are to run now.
struct LaunchPlan {
  bool expose = true;  // also write the outputs that only a judge reads (canonical codes and scales)
  int weight_set = 0;  // of those that Pipeline::add_weight_sets made
};

struct Stage {
  std::string name;
  std::function<void(const LaunchPlan&, bool dependent)> launch;
  bool gemm = false;  // counted
};

struct Pipeline {
  std::vector<Stage> stages;                // none: nothing to do (tokens = 0)
  std::function<void(TensorSet&)> collect;  // downloads the outputs of the last run
  std::function<std::int64_t()> tiles;  // output tiles that the GEMMs computed, from the plan; may be empty
  std::function<std::int64_t()> weight_bytes;     // code bytes that one run reads; empty = no weights
  std::function<void(int sets)> add_weight_sets;  // makes sets 1 .. sets-1 on the machine; empty = no weights
};

Pipeline build_topk(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_align(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_quantize(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_act_quant(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_combine(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_inv_rope_quant(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_grouped_gemm(Machine& machine, const Case& c, const TensorSet& inputs);
Pipeline build_moe_layer(Machine& machine, const Case& c, const TensorSet& inputs);

}  // namespace moe::device
