// Which kernel computes the smallest tile of one whole wgmma, 64 weight rows by 16 tokens? No variant: it
// measures the emulated SM and is compared with the variants.
#pragma once
#include "device/kernels/grouped_gemm_config.hpp"

namespace moe::test {

inline constexpr device::GemmConfig kNarrowTile{device::GemmKind::swap_ab, 16, 16, device::ScaleKind::block,
                                                64};
/// One CUDA thread of the grouped GEMM with that tile; `params` is a device::GroupedGemmParams.
void run_narrow_tile(const void* params);

}  // namespace moe::test
