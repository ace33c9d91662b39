// How long does the fused-MoE kernel of vLLM and SGLang, as Triton compiles it, run? One CTA a tile (not
// persistent), operands by cp.async num_stages - 1 k-blocks ahead, several CTAs an SM. Tiles: token blocks
// (experts ascending) outside, weight panels inside; group_m blocks take turns on a panel.
#pragma once
#include <vector>

#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/routing.hpp"
#include "sim/layer.hpp"
#include "sim/schedule.hpp"
#include "sim/triton_tile.hpp"

namespace moe::sim {

/// The grouped GEMMs of moe_layer (two, one tile for both unless tile_down is given) or of grouped_gemm;
/// `choice` has resolved tiles.
std::vector<GemmShape> triton_gemm_shapes(const Problem& problem, const Choice& choice);

Counts triton_counts(const GemmShape& gemm, const ExpertLoad& load, std::int64_t pairs);

/// As schedule_gemm of the persistent kernel.
GemmTime schedule_triton_gemm(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load,
                              std::int64_t pairs);

/// The small kernels of a layer behind its router: align (count, place), quantise, and between the GEMMs
/// activate and quantise, then combine. grouped_gemm has none: its blocks are aligned.
std::vector<Elementwise> triton_before(const Problem& problem);
std::vector<Elementwise> triton_between(const Problem& problem, std::int64_t rows);
std::vector<Elementwise> triton_behind(const Problem& problem, std::int64_t rows);

}  // namespace moe::sim
