// Instrumented unit: the grouped GEMM with a tile that no variant has.
#include "tests/device/kernels/narrow_tile.hpp"

#include "device/kernels/grouped_gemm.cuh"

namespace moe::test {

void run_narrow_tile(const void* params) {
  device::GroupedGemm<kNarrowTile>::run(*static_cast<const device::GroupedGemmParams*>(params));
}

}  // namespace moe::test
