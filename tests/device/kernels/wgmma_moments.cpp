// Instrumented unit: wgmmas that something looks at, or whose operands change, while they are in flight.
#include "tests/device/kernels/wgmma_moments.hpp"

#include "device/hopper/hopper.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  constexpr std::uint32_t kOnes = 0x38383838, kTwos = 0x40404040;  // e4m3

  /// The 32 bytes of k of row r of A, swizzled: the first two 16-byte columns of a 128-byte row.
  __device__ __forceinline__ void set_row(std::uint8_t * a, int r, std::uint32_t codes) {
    for (int column = 0; column < 2; ++column)
      *reinterpret_cast<uint4*>(a + 128 * r + 16 * (column ^ (r % 8))) = uint4{codes, codes, codes, codes};
  }
  /// An instruction that does nothing here, as often as other things may happen.
  __device__ __forceinline__ void let_time_pass(int moments) {
    for (int i = 0; i < moments; ++i) hopper::fence_proxy_async();
  }

  /// One warpgroup issues a wgmma on ones, thread p.late after all others; then `act` while it is in flight.
  template <class Act>
  __device__ __forceinline__ void watch_wgmma(const WgmmaMomentsParams& p, float(&d)[4], Act act) {
    std::uint8_t* smem = hopper::dynamic_smem();
    auto* issued = reinterpret_cast<std::uint64_t*>(smem + (64 + 8) * 128);
    const int thread = int(threadIdx.x);
    for (int i = thread; i < (64 + 8) * 32; i += kWgmmaMomentsThreads)
      reinterpret_cast<std::uint32_t*>(smem)[i] = kOnes;
    hopper::fence_proxy_async();
    if (thread == p.initialiser) {
      hopper::mbar_init(issued, kWgmmaMomentsThreads - 1);
      hopper::mbar_init(issued + 1, 1);
      hopper::fence_mbar_init();
    }
    hopper::cta_sync();
    if (thread == p.late) hopper::mbar_wait(issued, 0);
    hopper::wgmma_fence(d);
    hopper::wgmma_e4m3<8>(d, hopper::desc_sw128(smem), hopper::desc_sw128(smem + 64 * 128), 0);
    hopper::wgmma_commit();
    if (thread != p.actor) hopper::mbar_arrive(issued);
    act(smem, issued + 1);
    hopper::wgmma_wait<0>(d);
  }

  __global__ void operand_overwritten(const __grid_constant__ WgmmaMomentsParams p) {
    const int thread = int(threadIdx.x);
    float d[4] = {};
    watch_wgmma(p, d, [&](std::uint8_t* a, std::uint64_t*) {
      if (thread != p.actor) return;
      let_time_pass(10);
      set_row(a, 0, kTwos);
      let_time_pass(3);
      set_row(a, 63, kTwos);
    });
    if (thread % 124 == 0) p.out[thread / 124] = thread ? d[2] : d[0];  // thread 124 has row 48 + 7 + 8
  }

  __global__ void accumulator_watched(const __grid_constant__ WgmmaMomentsParams p) {
    const int thread = int(threadIdx.x);
    float d[4] = {};
    watch_wgmma(p, d, [&](std::uint8_t*, std::uint64_t* seen) {
      if (thread % 96 != 0) return;
      if (thread) hopper::mbar_wait(seen, 0);
      let_time_pass(thread ? 1 : 16);
      p.out[thread / 96] = d[0];
      if (!thread) hopper::mbar_arrive(seen);
    });
  }
}

void run_operand_overwritten(const void* params) {
  operand_overwritten(*static_cast<const WgmmaMomentsParams*>(params));
}
void run_accumulator_watched(const void* params) {
  accumulator_watched(*static_cast<const WgmmaMomentsParams*>(params));
}

}  // namespace moe::test
