// Instrumented unit: CTAs that meet at grid barriers, kernels that begin before the one in front has ended,
// and what can go wrong there.
#include <utility>

#include "device/hopper/hopper.hpp"
#include "tests/device/kernels/grid_sync_params.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  using hopper::ld_acquire;

  template <GridFault F>
  __device__ __forceinline__ void arrive(std::uint32_t * counter) {
    if constexpr (F == GridFault::fenced_volatile || F == GridFault::volatile_without_fence)
      hopper::fence_gpu();
    if constexpr (F == GridFault::fenced_volatile || F == GridFault::volatile_without_fence ||
                  F == GridFault::relaxed_arrival)
      hopper::atomic_add(counter, 1);
    else
      hopper::atomic_add_release(counter, 1);
  }

  template <GridFault F>
  __device__ __forceinline__ void wait(std::uint32_t * counter) {
    const std::uint32_t goal =
        gridDim.x + (F == GridFault::goal_too_large) - (F == GridFault::goal_too_small);
    if constexpr (F == GridFault::fenced_volatile || F == GridFault::volatile_without_fence) {
      while (hopper::ld_volatile(reinterpret_cast<const uint4*>(counter)).x < goal) {
      }
      if constexpr (F == GridFault::fenced_volatile) hopper::fence_gpu();
    } else {
      while (ld_acquire(counter) < goal) {
      }
    }
  }

  template <GridFault F>
  __device__ __forceinline__ void grid_barrier(std::uint32_t * counter) {
    if constexpr (F == GridFault::missing_barrier) return;
    if constexpr (F != GridFault::arrival_before_cta_sync) hopper::cta_sync();
    if (threadIdx.x == 0) {
      arrive<F>(counter);
      wait<F>(counter);
    }
    if constexpr (F == GridFault::no_cta_sync_after_wait) return;
    hopper::cta_sync();
  }

  /// Each CTA publishes by its own word and waits for its neighbour's.
  __device__ __forceinline__ void neighbour_barrier(const GridSyncParams& p, std::uint32_t step) {
    hopper::cta_sync();
    if (threadIdx.x == 0) {
      hopper::st_release(p.counters + blockIdx.x, step);
      const unsigned before = (blockIdx.x + gridDim.x - 1) % gridDim.x, behind = (blockIdx.x + 1) % gridDim.x;
      while (ld_acquire(p.counters + behind) < step) {
      }
      while (ld_acquire(p.counters + before) < step) {
      }
    }
    hopper::cta_sync();
  }

  inline constexpr bool by_copy(GridFault f) {
    return f == GridFault::by_copy || f == GridFault::copy_without_proxy_fence ||
           f == GridFault::copy_behind_shared_fence || f == GridFault::bulk_store_only_read;
  }

  /// out[i] = 2 * from[i] through shared memory: bulk load, ordinary doubling, bulk store.
  template <GridFault F>
  __device__ __forceinline__ void copy_step(const std::uint32_t* from, std::uint32_t* out,
                                            std::uint8_t* smem) {
    auto* bar = reinterpret_cast<std::uint64_t*>(smem + 4 * kSliceWords);
    auto* words = reinterpret_cast<std::uint32_t*>(smem);
    if (threadIdx.x == 0) {
      hopper::mbar_init(bar, 1);
      hopper::fence_mbar_init();
      if constexpr (F == GridFault::copy_behind_shared_fence) hopper::fence_proxy_async();
      if constexpr (F != GridFault::copy_without_proxy_fence && F != GridFault::copy_behind_shared_fence)
        hopper::fence_proxy_async_global();
      hopper::mbar_arrive_expect_tx(bar, 4 * kSliceWords);
      hopper::bulk_load(smem, from, 4 * kSliceWords, bar);
    }
    hopper::cta_sync();
    hopper::mbar_wait(bar, 0);
    for (int i = int(threadIdx.x); i < kSliceWords; i += kGridSyncThreads) words[i] *= 2;
    hopper::fence_proxy_async();
    hopper::cta_sync();
    if (threadIdx.x != 0) return;
    hopper::bulk_store(out, smem, 4 * kSliceWords);
    hopper::bulk_commit();
    if constexpr (F == GridFault::bulk_store_only_read)
      hopper::bulk_wait_read<0>();
    else
      hopper::bulk_wait<0>();
  }

  template <GridFault F>
  __global__ void grid_sync_kernel(const __grid_constant__ GridSyncParams p) {
    const int mine = int(blockIdx.x) * kSliceWords, next = int((blockIdx.x + 1) % gridDim.x) * kSliceWords;
    for (int i = int(threadIdx.x); i < kSliceWords; i += kGridSyncThreads)
      p.middle[mine + i] = p.in[mine + i] + 1;
    if constexpr (F == GridFault::flags)
      neighbour_barrier(p, 1);
    else
      grid_barrier<F>(p.counters);
    if constexpr (by_copy(F)) {
      copy_step<F>(p.middle + next, p.out + mine, hopper::dynamic_smem());
    } else {
      for (int i = int(threadIdx.x); i < kSliceWords; i += kGridSyncThreads)
        p.out[mine + i] = 2 * p.middle[next + i];
    }
    if constexpr (F == GridFault::flags)
      neighbour_barrier(p, 2);
    else if constexpr (F != GridFault::overwrite_without_barrier)
      grid_barrier<F>(p.counters + 4);
    if constexpr (by_copy(F)) {  // what the bulk stores of others wrote
      for (int i = int(threadIdx.x); i < kSliceWords; i += kGridSyncThreads)
        p.middle[mine + i] = p.out[next + i] == 0 ? 0 : 7;
    } else {
      for (int i = int(threadIdx.x); i < kSliceWords; i += kGridSyncThreads) p.middle[mine + i] = 7;
    }
  }

  template <ChainFault F>
  __global__ void chain_kernel(const __grid_constant__ ChainParams p) {
    if constexpr (F != ChainFault::waits_then_allows) hopper::grid_launch_dependents();
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    std::uint32_t early = 0;
    if constexpr (F == ChainFault::reads_before_wait) early = p.in[i];
    if constexpr (F == ChainFault::writes_before_wait) p.out[i] = 0;
    if constexpr (F == ChainFault::one_thread_waits) {
      if (threadIdx.x == 0) hopper::grid_wait();
      hopper::cta_sync();
    } else if constexpr (F == ChainFault::other_warp_waits) {
      if (threadIdx.x < 32) hopper::grid_wait();
    } else if constexpr (F != ChainFault::never_waits) {
      hopper::grid_wait();
    }
    if constexpr (F == ChainFault::waits_then_allows) hopper::grid_launch_dependents();
    p.out[i] = (F == ChainFault::reads_before_wait ? early : p.in[i]) + 1;
  }
}

namespace {
template <int F>
void run_grid(const void* params) {
  grid_sync_kernel<GridFault(F)>(*static_cast<const GridSyncParams*>(params));
}
template <int F>
void run_chain(const void* params) {
  chain_kernel<ChainFault(F)>(*static_cast<const ChainParams*>(params));
}
template <int... F>
GridRun grid_at(int fault, std::integer_sequence<int, F...>) {
  constexpr GridRun kRuns[] = {run_grid<F>...};
  return kRuns[fault];
}
template <int... F>
GridRun chain_at(int fault, std::integer_sequence<int, F...>) {
  constexpr GridRun kRuns[] = {run_chain<F>...};
  return kRuns[fault];
}
}  // namespace

GridRun grid_sync(GridFault fault) {
  return grid_at(int(fault), std::make_integer_sequence<int, int(GridFault::count)>());
}
GridRun chain_link(ChainFault fault) {
  return chain_at(int(fault), std::make_integer_sequence<int, int(ChainFault::count)>());
}

}  // namespace moe::test
