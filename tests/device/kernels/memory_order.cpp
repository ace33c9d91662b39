// Instrumented unit: kernels that order accesses of memory, rightly or not quite. A wrong kernel says at the
// line that the emulated SM must name: "found: <name of the kernel>".
#include "tests/device/kernels/memory_order.hpp"

#include "device/hopper/hopper.hpp"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  using Params = MemoryOrderParams;
  __device__ __forceinline__ int thread() { return int(threadIdx.x); }
  __device__ __forceinline__ int warp() { return int(threadIdx.x) / 32; }
  __device__ __forceinline__ int lane() { return int(threadIdx.x) % 32; }
  __device__ __forceinline__ float* floats() { return reinterpret_cast<float*>(hopper::dynamic_smem()); }
  /// Volatile, so that each 16-bit access is one.
  __device__ __forceinline__ volatile std::uint16_t* halves() {
    return reinterpret_cast<volatile std::uint16_t*>(hopper::dynamic_smem());
  }
  __device__ __forceinline__ std::uint64_t* bar(int i) {
    return reinterpret_cast<std::uint64_t*>(hopper::dynamic_smem() + 8192) + i;
  }
  __device__ __forceinline__ void init_bar(int count) {
    if (thread() == 0) {
      hopper::mbar_init(bar(0), count);
      hopper::fence_mbar_init();
    }
    hopper::cta_sync();
  }
  __device__ __forceinline__ void load_512(void* to, const float* from) {
    hopper::mbar_arrive_expect_tx(bar(0), 512);
    hopper::bulk_load(to, from, 512, bar(0));
  }
  __device__ __forceinline__ void store_512(float* to) {
    hopper::bulk_store(to, floats(), 512);
    hopper::bulk_commit();
  }
  __device__ __forceinline__ void fill() {
    floats()[thread()] = float(thread());
    hopper::fence_proxy_async();
    hopper::cta_sync();
  }
  __device__ __forceinline__ void grid_barrier(std::uint32_t * counter, std::uint32_t goal) {
    hopper::cta_sync();
    if (thread() == 0) {
      hopper::atomic_add_release(counter, 1);
      while (hopper::ld_acquire(counter) < goal) {
      }
    }
    hopper::cta_sync();
  }

  // ---- halves and bytes of a word
  __global__ void second_half_hides_first(const __grid_constant__ Params p) {
    init_bar(32);
    if (warp() == 0) {
      halves()[2 * lane()] = 1;
      hopper::mbar_arrive(bar(0));
      halves()[2 * lane() + 1] = 2;
    }
    if (warp() == 1) p.out[lane()] = halves()[2 * lane()];  // found: second_half_hides_first
  }
  __global__ void fence_between_halves(const __grid_constant__ Params p) {
    if (warp() == 0) {
      halves()[2 * lane()] = 1;
      hopper::fence_proxy_async();
      halves()[2 * lane() + 1] = 2;
    }
    if (warp() == 1) p.out[lane()] = halves()[2 * lane()];  // found: fence_between_halves
  }
  __global__ void half_read_forgotten(const __grid_constant__ Params p) {
    if (thread() < 64) halves()[thread()] = 0;
    hopper::cta_sync();
    if (warp() == 0) p.out[lane()] = halves()[2 * lane() + 1];
    if (warp() < 2) hopper::named_barrier(1, 64);
    if (warp() == 1) halves()[2 * lane()] = 1;
    if (warp() == 2) halves()[2 * lane() + 1] = 2;  // found: half_read_forgotten
  }
  __global__ void half_without_proxy_fence(const __grid_constant__ Params p) {
    fill();
    if (warp() == 0) halves()[2 * lane()] = 3;
    if (warp() == 1) {
      halves()[2 * lane() + 1] = 4;
      hopper::fence_proxy_async();
    }
    hopper::cta_sync();
    if (thread() == 0) {
      hopper::bulk_store(p.out, floats(), 512);  // found: half_without_proxy_fence
      hopper::bulk_commit();
      hopper::bulk_wait<0>();
    }
  }
  __global__ void global_half_of_two_writers(const __grid_constant__ Params p) {
    if (warp() == 0) p.halves[2 * lane()] = 1;
    if (warp() == 1) p.halves[2 * lane() + 1] = 2;
    if (warp() == 2) p.halves[2 * lane()] = 3;  // found: global_half_of_two_writers
  }
  __global__ void global_half_of_other_cta(const __grid_constant__ Params p) {
    if (blockIdx.x < 2) p.halves[2 * thread() + int(blockIdx.x)] = 1;
    hopper::cta_sync();
    if (blockIdx.x == 1 && thread() == 0) hopper::st_release(p.counters, 1);
    if (blockIdx.x < 2) return;
    while (hopper::ld_acquire(p.counters) == 0) {
    }
    p.out[thread()] = p.halves[2 * thread()];  // found: global_half_of_other_cta
  }
  __global__ void own_halves(const __grid_constant__ Params p) {
    const int mine = 2 * lane() + warp() % 2, at = mine + warp() / 2 * 64;
    for (int i = 0; i < 3; ++i) {
      halves()[at] = std::uint16_t(i);
      p.halves[at] = std::uint16_t(i);
      p.out[thread()] = float(halves()[at] + p.halves[at]);
    }
  }
  __global__ void own_bytes(const __grid_constant__ Params p) {
    volatile std::uint8_t* s = hopper::dynamic_smem();
    const int at = 4 * lane() + warp();
    for (int i = 0; i < 3; ++i) {
      s[at] = std::uint8_t(i);
      hopper::warp_sync();
      p.out[thread()] = s[at];
    }
  }
  __global__ void own_bytes_of_ctas(const __grid_constant__ Params p) {
    volatile std::uint8_t* mine = p.bytes + blockIdx.x;
    if (thread() != 0) return;
    for (int i = 0; i < 3; ++i) {
      *mine = std::uint8_t(i);
      hopper::atomic_add_release(p.counters, 1);
      p.out[blockIdx.x] = *mine;
    }
  }
  __global__ void halves_then_words(const __grid_constant__ Params p) {
    for (int i = 0; i < 2; ++i) {
      halves()[thread()] = std::uint16_t(i);
      halves()[thread() + 128] = std::uint16_t(i);
      hopper::fence_proxy_async();
      hopper::cta_sync();
      if (thread() == 0) {
        store_512(p.out);
        hopper::bulk_wait<0>();
      }
      hopper::cta_sync();
      floats()[thread()] = floats()[127 - thread()] * 0;  // found: halves_then_words
      hopper::cta_sync();
    }
  }

  // ---- bulk stores that read a buffer
  __global__ void two_stores_one_wait(const __grid_constant__ Params p) {
    fill();
    if (thread() == 0) store_512(p.out);
    if (thread() == 32) {
      store_512(p.middle);
      hopper::bulk_wait_read<0>();
    }
    hopper::cta_sync();
    floats()[thread()] = 9;  // found: two_stores_one_wait
    if (lane() == 0) hopper::bulk_wait<0>();
  }
  __global__ void other_thread_has_waited(const __grid_constant__ Params p) {
    fill();
    if (thread() == 0) {
      store_512(p.out);
      hopper::bulk_wait_read<0>();
      floats()[0] = 7;
    }
    if (thread() == 1) floats()[1] = 8;  // found: other_thread_has_waited
    if (thread() == 0) hopper::bulk_wait<0>();
  }
  __global__ void two_stores_two_waits(const __grid_constant__ Params p) {
    for (int i = 0; i < 3; ++i) {
      fill();
      if (thread() == 0) store_512(p.out + 128 * i);
      if (thread() == 32) store_512(p.middle + 128 * i);
      if (lane() == 0) hopper::bulk_wait_read<0>();
      hopper::cta_sync();
    }
    if (lane() == 0) hopper::bulk_wait<0>();
  }
  __global__ void write_beside_landed_bytes(const __grid_constant__ Params p) {
    init_bar(1);
    if (thread() == 0) {
      load_512(floats(), p.in);
      hopper::mbar_wait(bar(0), 0);
      floats()[0] = 1;
    }
    if (thread() == 1) p.out[1] = floats()[1];  // found: write_beside_landed_bytes
  }

  // ---- release and acquire inside a CTA, what a phase hands on, which space a fence covers
  __global__ void flag_between_warps(const __grid_constant__ Params p) {
    if (warp() == 2) {
      p.middle[lane()] = floats()[lane()] = float(lane());
      hopper::warp_sync();
      if (lane() == 0) hopper::st_release(p.counters, 1);
    }
    if (warp() != 0) return;
    while (hopper::ld_acquire(p.counters) == 0) {
    }
    p.out[lane()] = p.middle[31 - lane()] + floats()[31 - lane()];
  }
  __global__ void flag_of_another_thread(const __grid_constant__ Params p) {
    if (warp() == 2) p.middle[lane()] = 1;
    if (thread() == 96) hopper::st_release(p.counters, 1);
    if (warp() != 0) return;
    while (hopper::ld_acquire(p.counters) == 0) {
    }
    p.out[lane()] = p.middle[lane()];  // found: flag_of_another_thread
  }
  __global__ void shared_fence_for_global(const __grid_constant__ Params p) {
    init_bar(1);
    p.middle[thread()] = 1;
    hopper::fence_proxy_async();
    hopper::cta_sync();
    if (thread() == 0) {
      hopper::mbar_arrive_expect_tx(bar(0), 512);
      hopper::bulk_load(floats(), p.middle, 512, bar(0));  // found: shared_fence_for_global
    }
    hopper::mbar_wait(bar(0), 0);
  }
  __global__ void full_fence_for_global(const __grid_constant__ Params p) {
    init_bar(1);
    p.middle[thread()] = 1;
    hopper::fence_proxy_async_global();
    hopper::cta_sync();
    if (thread() == 0) load_512(floats(), p.middle);
    hopper::mbar_wait(bar(0), 0);
  }

  // ---- mbarrier objects
  __global__ void init_fence_not_ordered(const __grid_constant__ Params p) {
    if (thread() == 0) hopper::mbar_init(bar(0), 1);
    hopper::cta_sync();
    if (thread() == 0) hopper::fence_mbar_init();
    if (thread() == 32) {
      hopper::mbar_arrive_expect_tx(bar(0), 512);
      hopper::bulk_load(floats(), p.in, 512, bar(0));  // found: init_fence_not_ordered
    }
    hopper::mbar_wait(bar(0), 0);
  }
  __global__ void init_by_proxy_fence(const __grid_constant__ Params p) {
    if (thread() == 0) {
      hopper::mbar_init(bar(0), 1);
      hopper::fence_proxy_async();
    }
    hopper::cta_sync();
    if (thread() == 32) load_512(floats(), p.in);
    hopper::mbar_wait(bar(0), 0);
  }
  __global__ void word_beside_mbarrier(const __grid_constant__ Params p) {
    init_bar(1);
    auto* word = reinterpret_cast<volatile std::uint32_t*>(bar(1));
    if (thread() == 0) {
      *word = 5;
      hopper::mbar_arrive(bar(0));
    }
    hopper::mbar_wait(bar(0), 0);
    p.out[thread()] = float(*word);
  }
  __global__ void word_in_mbarrier(const __grid_constant__ Params p) {
    init_bar(1);
    auto* word = reinterpret_cast<volatile std::uint32_t*>(bar(0));
    if (thread() == 0) p.out[0] = float(word[1]);  // found: word_in_mbarrier
  }

  // ---- CTAs
  __global__ void no_barrier_before_next_write(const __grid_constant__ Params p) {
    const unsigned mine = blockIdx.x * kMemoryOrderThreads, next = (blockIdx.x + 1) % gridDim.x;
    for (unsigned round = 1; round <= 3; ++round) {
      p.middle[mine + threadIdx.x] = float(round);
      grid_barrier(p.counters, gridDim.x * round);
      p.out[mine + threadIdx.x] =
          p.middle[next * kMemoryOrderThreads + threadIdx.x];  // found: no_barrier_before_next_write
    }
  }
  __global__ void barrier_before_next_write(const __grid_constant__ Params p) {
    const unsigned mine = blockIdx.x * kMemoryOrderThreads, next = (blockIdx.x + 1) % gridDim.x;
    for (unsigned round = 0; round < 3; ++round) {
      p.middle[mine + threadIdx.x] = float(round);
      grid_barrier(p.counters, gridDim.x * (2 * round + 1));
      p.out[mine + threadIdx.x] = p.middle[next * kMemoryOrderThreads + threadIdx.x];
      grid_barrier(p.counters, gridDim.x * (2 * round + 2));
    }
  }
  __global__ void flag_read_once(const __grid_constant__ Params p) {
    if (blockIdx.x == 0) {
      p.middle[thread()] = 1;
      hopper::cta_sync();
      if (thread() == 0) hopper::st_release(p.counters, 1);
    } else {
      if (thread() == 0) hopper::ld_acquire(p.counters);
      hopper::cta_sync();
      p.out[thread()] = p.middle[thread()];  // found: flag_read_once
    }
  }
  __global__ void value_of_flag_decides(const __grid_constant__ Params p) {
    if (thread() != 0) return;
    if (blockIdx.x == 0) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        p.middle[i] = 1;
        hopper::st_release(p.counters, i + 1);
      }
    } else {
      const std::uint32_t ready = hopper::ld_acquire(p.counters);
      for (std::uint32_t i = 0; i < ready; ++i) p.out[i] = p.middle[i];
    }
  }

  // ---- dependent launches
  __global__ void writes_middle(const __grid_constant__ Params p) {
    hopper::grid_wait();
    p.middle[thread()] = 1;
  }
  __global__ void any_thread_allows(const __grid_constant__ Params p) {
    if (thread() == 0) hopper::grid_wait();
    hopper::grid_launch_dependents();
    hopper::cta_sync();
    p.out[512 + thread()] = 1;
  }
  __global__ void threads_allow_behind_wait(const __grid_constant__ Params p) {
    if (thread() == 0) hopper::grid_wait();
    hopper::cta_sync();
    hopper::grid_launch_dependents();
    p.out[512 + thread()] = 1;
  }
  __global__ void reads_in_front_of_wait(const __grid_constant__ Params p) {
    p.out[thread()] = p.middle[thread()];  // found: reads_in_front_of_wait
    hopper::grid_wait();
  }
  __global__ void copy_lands_before_arrivals(const __grid_constant__ Params p) {
    init_bar(1);
    if (thread() == 0) {
      hopper::grid_wait();
      hopper::bulk_load(floats(), p.in, 512, bar(0));
    }
    if (thread() == 32) hopper::mbar_arrive_expect_tx(bar(0), 512);
    if (thread() != 33) return;
    hopper::mbar_wait(bar(0), 0);
    p.out[thread()] = floats()[thread()] + p.middle[thread()];
  }

  template <void (*kKernel)(const Params)>
  void run(const void* params) {
    kKernel(*static_cast<const Params*>(params));
  }
}

namespace {

const MemoryOrderKernel kKernels[] = {
    {"second_half_hides_first", run<second_half_hides_first>, "race"},
    {"fence_between_halves", run<fence_between_halves>, "race"},
    {"half_read_forgotten", run<half_read_forgotten>, "race"},
    {"half_without_proxy_fence", run<half_without_proxy_fence>, "missing-proxy-fence"},
    {"global_half_of_two_writers", run<global_half_of_two_writers>, "race"},
    {"global_half_of_other_cta", run<global_half_of_other_cta>, "cta-race", 3, true},
    {"own_halves", run<own_halves>, nullptr},
    {"own_bytes", run<own_bytes>, nullptr},
    {"own_bytes_of_ctas", run<own_bytes_of_ctas>, nullptr, 4, true},
    {"halves_then_words", run<halves_then_words>, "race"},
    {"two_stores_one_wait", run<two_stores_one_wait>, "overwrite-under-bulk-store"},
    {"other_thread_has_waited", run<other_thread_has_waited>, "overwrite-under-bulk-store"},
    {"two_stores_two_waits", run<two_stores_two_waits>, nullptr},
    {"write_beside_landed_bytes", run<write_beside_landed_bytes>, "read-before-tma"},
    {"flag_between_warps", run<flag_between_warps>, nullptr},
    {"flag_of_another_thread", run<flag_of_another_thread>, "race"},
    {"shared_fence_for_global", run<shared_fence_for_global>, "missing-proxy-fence"},
    {"full_fence_for_global", run<full_fence_for_global>, nullptr},
    {"init_fence_not_ordered", run<init_fence_not_ordered>, "mbarrier-init-fence"},
    {"init_by_proxy_fence", run<init_by_proxy_fence>, nullptr},
    {"word_beside_mbarrier", run<word_beside_mbarrier>, nullptr},
    {"word_in_mbarrier", run<word_in_mbarrier>, "mbarrier-object"},
    {"no_barrier_before_next_write", run<no_barrier_before_next_write>, "cta-race", 4, true},
    {"barrier_before_next_write", run<barrier_before_next_write>, nullptr, 4, true},
    {"flag_read_once", run<flag_read_once>, "cta-race", 2, true},
    {"value_of_flag_decides", run<value_of_flag_decides>, nullptr, 2, true},
    {"reads_in_front_of_wait", run<reads_in_front_of_wait>, "dependent-launch", 1, false, run<writes_middle>,
     run<any_thread_allows>},
    {"reads_behind_a_kernel_that_waits", run<reads_in_front_of_wait>, nullptr, 1, false, run<writes_middle>,
     run<threads_allow_behind_wait>},
    {"copy_lands_before_arrivals", run<copy_lands_before_arrivals>, nullptr, 1, false, run<writes_middle>},
};

}  // namespace

std::span<const MemoryOrderKernel> memory_order_kernels() { return kKernels; }

}  // namespace moe::test
