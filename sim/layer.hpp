// What do the kernels around the grouped GEMMs cost, and how do the kernels of a layer follow one another?
// Seconds. The layer is a chain of dependent launches: topk, count_rows (above 128 pairs), place_rows,
// quantize, gemm1, act_quant, gemm2, combine.
#pragma once
#include <cstdint>
#include <vector>

#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/prediction.hpp"
#include "fixtures/problem/problem.hpp"
#include "sim/layer_path.hpp"

namespace moe::sim {

/// A kernel that only moves bytes: the shortest kernel's time plus the longest of three: its bytes over the
/// copy rate, or over L2's rates when what it touches fits there; the start of its CTAs, one after another on
/// each SM; reads of L2 that a warp makes one behind the other.
struct Elementwise {
  const char* name = "";
  double read = 0, written = 0;  // bytes
  double ctas = 0;               // 0: few
  double steps = 0;              // dependent reads beyond those of the shortest kernel
};
double elementwise_seconds(const Hardware& hardware, const Elementwise& kernel);

/// The small kernels of moe_layer or grouped_gemm in front of the (first) GEMM, between the GEMMs and behind
/// the last, in launch order. `rows` are the pairs that arrived at this rank. A trace brings its own experts,
/// so it needs no topk; tensor_dynamic needs a maximum before each quantisation; grouped_gemm sorts its rows
/// first, and only `contiguous` comes with the expert of each row. `kernel`: the layer's path.
std::vector<Elementwise> kernels_before(const Problem& problem, std::int64_t rows,
                                        std::string_view kernel = kOwnKernel);
std::vector<Elementwise> kernels_between(const Problem& problem, std::int64_t rows);
std::vector<Elementwise> kernels_behind(const Problem& problem, std::int64_t rows);

/// The one elementwise kernel of ops topk, align, quantize, act_quant, combine and inv_rope_quant.
Elementwise kernel_of_op(const Problem& problem, std::int64_t rows);

Part part_of(const Hardware& hardware, const Elementwise& kernel);

}  // namespace moe::sim
