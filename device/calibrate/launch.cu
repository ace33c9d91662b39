// What does a launch cost that does nothing, or next to nothing? The host times chains of these kernels.
#include "device/calibrate/calibrate_params.hpp"
#include "device/hopper/ptx_measure.cuh"

namespace moe::device {

using namespace hopper;

/// Ends at once.
extern "C" __global__ void __launch_bounds__(512) empty(const __grid_constant__ CalibrateParams p) {
  grid_wait();
  grid_launch_dependents();
}

/// Lasts p.cycles; in a dependent launch the next may be set up meanwhile.
extern "C" __global__ void __launch_bounds__(512) spin(const __grid_constant__ CalibrateParams p) {
  grid_wait();
  grid_launch_dependents();
  const std::uint64_t start = sm_cycles();
  while (sm_cycles() - start < p.cycles) {
  }
}

/// p.iterations barriers of all CTAs (cooperative launch); out[block] = {cycles, ns}.
extern "C" __global__ void __launch_bounds__(512) grid_barrier(const __grid_constant__ CalibrateParams p) {
  cta_sync();
  const std::uint64_t ns = nanoseconds(), cycles = sm_cycles();
  for (int i = 1; i <= p.iterations; ++i) {
    cta_sync();
    if (threadIdx.x == 0) {
      atomic_add_release(p.words, 1);
      while (ld_acquire(p.words) < std::uint32_t(i) * gridDim.x) {
      }
    }
    cta_sync();
  }
  if (threadIdx.x != 0) return;
  p.out[4 * blockIdx.x] = sm_cycles() - cycles;
  p.out[4 * blockIdx.x + 1] = nanoseconds() - ns;
}

/// The least that an elementwise or routing kernel does: an index, a row at that index, a maximum over the
/// CTA, a row written. no word of p.data is 0xFFFFFFFF; p.loads = 0 leaves the index out, p.share = 0 the
/// maximum.
extern "C" __global__ void __launch_bounds__(512) small_kernel(const __grid_constant__ CalibrateParams p) {
  grid_wait();
  grid_launch_dependents();
  auto* shared = reinterpret_cast<std::uint32_t*>(dynamic_smem());
  const std::uint64_t row = std::uint64_t(blockIdx.x) * 16 * blockDim.x;
  std::uint64_t at = row;
  if (p.loads != 0 && reinterpret_cast<const std::uint32_t*>(p.data)[blockIdx.x] == 0xFFFFFFFFu) at += 16;
  uint4 piece = *reinterpret_cast<const uint4*>(p.data + at + 16 * threadIdx.x);
  if (p.share != 0) {
    const std::uint32_t most = redux_max(piece.x);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = most;
    cta_sync();
    for (unsigned w = 0; w < blockDim.x / 32; ++w) piece.y += shared[w];
  }
  *reinterpret_cast<uint4*>(p.target + row + 16 * threadIdx.x) = piece;
}

}  // namespace moe::device
