// How is each small kernel launched? One function a kernel: it fixes the grid, the threads and the shared
// memory that the kernel's contract asks for. `dependent`: the launch may begin while the kernel in front of
// it still runs.
#pragma once
#include <cstdint>

#include "device/kernels/act_quant_params.hpp"
#include "device/kernels/combine_params.hpp"
#include "device/kernels/count_rows_params.hpp"
#include "device/kernels/expert_of_rows_params.hpp"
#include "device/kernels/gather_rows_params.hpp"
#include "device/kernels/generate_weights_params.hpp"
#include "device/kernels/inv_rope_quant_params.hpp"
#include "device/kernels/place_rows_params.hpp"
#include "device/kernels/quantize_params.hpp"
#include "device/kernels/topk_route_params.hpp"
#include "device/machine.hpp"

namespace moe::device {

void launch_topk(Machine& machine, const TopkRouteParams& params, bool dependent);
void launch_count(Machine& machine, const CountRowsParams& params, std::int32_t experts, bool dependent);
void launch_place(Machine& machine, const PlaceRowsParams& params, bool dependent);
void launch_expert_of_rows(Machine& machine, const ExpertOfRowsParams& params, bool dependent);
void launch_gather(Machine& machine, const GatherRowsParams& params, std::int64_t sources, bool dependent);
/// Chooses params.chunk. Rows of one scale a row are one CTA each; others are split over CTAs.
void launch_quantize(Machine& machine, QuantizeParams params, bool dependent);
void launch_act_quant(Machine& machine, ActQuantParams params, bool dependent);
void launch_combine(Machine& machine, const CombineParams& params, std::int64_t tokens, bool dependent);

void launch_inv_rope_quant(Machine& machine, const InvRopeQuantParams& params, bool dependent);

void launch_generate(Machine& machine, const GenerateWeightsParams& params, bool dependent);

/// CTAs of the amax kernels = entries of partial_max for `rows` rows.
std::int32_t amax_partials(std::int64_t rows);
void launch_hidden_amax(Machine& machine, const HiddenAmaxParams& params, bool dependent);
void launch_act_amax(Machine& machine, const ActAmaxParams& params, bool dependent);

}  // namespace moe::device
