// What does the model say a choice costs on a card, and why? The one entry of this folder. Pure: same
// problem, choice and card, same prediction; nothing measured on the predicted kernels goes in.
#pragma once
#include <string_view>

#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/prediction.hpp"
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/routing.hpp"
#include "sim/layer_path.hpp"

namespace moe::sim {

/// The kernels that the model knows, as Choice::kernel names them: the built-in ones (layer_path.hpp), the
/// fused-MoE kernel of vLLM and SGLang as Triton compiles it, on Triton's routed layer behind a router, and
/// CUTLASS's dense GEMM with block scales (grouped_gemm of one expert).
inline constexpr std::string_view kTritonKernel = "triton_fused_moe",
                                  kCutlassDenseKernel = "cutlass_blockwise_dense";

/// Draws the problem's routing and predicts. `tile=auto` is resolved by fixtures/problem/auto_tile.hpp.
/// Throws BadInput for a kernel that is not known, a tile that the layout cannot run and for ops without a
/// model. tokens = 0: no launch,
/// 0 seconds.
Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware);

/// The same for a routing that the caller already has.
Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware,
                   const Routing& routing);

/// The same for rows per local expert.
Prediction predict(const Problem& problem, const Choice& choice, const Hardware& hardware,
                   const ExpertLoad& load);

/// Rows of the experts of the problem's rank.
ExpertLoad local_load(const Problem& problem, const Routing& routing);

}  // namespace moe::sim
