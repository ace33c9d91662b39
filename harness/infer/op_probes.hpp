// Which inputs of quantize, act_quant and combine by themselves tell implementations apart? Those of the
// layer's probes (probes.hpp) that ask these stages, put before the op alone.
#pragma once
#include <vector>

#include "harness/infer/probes.hpp"

namespace moe::harness {

/// Of a case that small_case or own_case gave, of op quantize, act_quant or combine.
std::vector<Probe> make_op_probes(const Case& c);

}  // namespace moe::harness
