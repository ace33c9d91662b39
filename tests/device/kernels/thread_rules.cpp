// Instrumented unit: what may a thread, a warp or a warpgroup do alone?
#include "tests/device/kernels/rule_kernels.cuh"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  __global__ void elected_stores_lane_0_reads(const __grid_constant__ RuleParams p) {
    if (hopper::elect_one()) words()[warp()] = 1;  // here
    if (lane() == 0) p.out[warp()] = words()[warp()];  // here
  }
  __global__ void one_warp_changes_registers(const __grid_constant__ RuleParams p) {
    if (warp() == 0) hopper::setmaxnreg_dec<24>();  // here
    p.out[thread()] = 1;
  }
  __global__ void warps_change_apart(const __grid_constant__ RuleParams p) {
    if (warp() % 4 == 0)
      hopper::setmaxnreg_dec<24>();
    else
      hopper::setmaxnreg_dec<40>();  // here
    p.out[thread()] = 1;
  }
  __global__ void registers_changed_twice(const __grid_constant__ RuleParams p) {
    hopper::setmaxnreg_dec<40>();
    hopper::setmaxnreg_dec<24>();  // here
    p.out[thread()] = 1;
  }
  __global__ void registers_of_two_groups(const __grid_constant__ RuleParams p) {
    if (thread() < 128)
      hopper::setmaxnreg_dec<40>();
    else
      hopper::setmaxnreg_inc<240>();
    hopper::cta_sync();
    if (thread() < 128) hopper::setmaxnreg_dec<24>();
    p.out[thread()] = 1;
  }

  __global__ void vector_at_4(const __grid_constant__ RuleParams p) {
    if (thread() >= 8) return;
    const uint4 v = *reinterpret_cast<const uint4*>(p.in + 4 * thread() + 1);  // here
    p.out[thread()] = float(v.x + v.w);
  }
  __global__ void pair_at_4(const __grid_constant__ RuleParams p) {
    if (thread() >= 8) return;
    const float2 v = *reinterpret_cast<const float2*>(p.in + 2 * thread() + 1);  // here
    p.out[thread()] = v.x + v.y;
  }
  __global__ void pair_at_8(const __grid_constant__ RuleParams p) {
    const float2 v = *reinterpret_cast<const float2*>(p.in + 2 * thread());
    p.out[thread()] = v.x + v.y;
  }
  __global__ void divides_by_0(const __grid_constant__ RuleParams p) {
    p.out[thread()] = float(thread() / p.zero);  // here
  }
  __global__ void spins_on_shared_memory(const __grid_constant__ RuleParams p) {
    volatile float* flag = words();
    if (thread() == 0) *flag = 0;
    hopper::cta_sync();
    if (warp() == 0)
      while (*flag == 0) {  // here
      }
    if (thread() == 64) *flag = 1;
    p.out[thread()] = 1;
  }
  __global__ void spins_on_what_nobody_writes(const __grid_constant__ RuleParams p) {
    volatile float* flag = p.out;
    while (*flag == 0) {  // here
    }
    p.out[thread()] = 1;
  }
  __global__ void long_loop_of_registers(const __grid_constant__ RuleParams p) {
    volatile int count = 0;
    for (int i = 0; i < 200'000; ++i) count = count + 1;
    hopper::cta_sync();
    p.out[thread()] = float(count);
  }
  __global__ void local_memory_of_400_kb(const __grid_constant__ RuleParams p) {
    volatile float a[100'000];
    for (int i = 0; i < 100'000; i += 1'000) a[i] = float(i);
    p.out[thread()] = a[thread() % 100 * 1'000];
  }
}

std::span<const RuleKernel> thread_rules() {
  static constexpr RuleKernel kAll[] = {
      {"elected_stores_lane_0_reads", run_rule<elected_stores_lane_0_reads>, 64, "race"},
      {"one_warp_changes_registers", run_rule<one_warp_changes_registers>, 256, "setmaxnreg"},
      {"warps_change_apart", run_rule<warps_change_apart>, 256, "setmaxnreg"},
      {"registers_changed_twice", run_rule<registers_changed_twice>, 128, "setmaxnreg"},
      {"registers_of_two_groups", run_rule<registers_of_two_groups>, 256, nullptr},
      {"vector_at_4", run_rule<vector_at_4>, 32, "misaligned-access"},
      {"pair_at_4", run_rule<pair_at_4>, 32, "misaligned-access"},
      {"pair_at_8", run_rule<pair_at_8>, 32, nullptr},
      {"divides_by_0", run_rule<divides_by_0>, 32, "division"},
      {"spins_on_shared_memory", run_rule<spins_on_shared_memory>, 96, "race"},
      {"spins_on_what_nobody_writes", run_rule<spins_on_what_nobody_writes>, 32, "livelock"},
      {"long_loop_of_registers", run_rule<long_loop_of_registers>, 32, nullptr},
      {"local_memory_of_400_kb", run_rule<local_memory_of_400_kb>, 32, nullptr},
  };
  return kAll;
}

}  // namespace moe::test
