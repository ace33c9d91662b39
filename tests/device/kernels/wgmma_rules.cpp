// Instrumented unit: when may a wgmma be issued, and when may its accumulators be used?
#include "tests/device/kernels/rule_kernels.cuh"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  using hopper::wgmma_commit;
  using hopper::wgmma_e4m3;
  using hopper::wgmma_fence;
  using hopper::wgmma_wait;

  __global__ void full_wait_behind_issue(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) load(p, 0, bar(0));
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);  // here
    wgmma_commit();
    hopper::mbar_wait(bar(0), 0);
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void one_warp_waits_in_front(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) load(p, 0, bar(0));
    if (warp() == 3) hopper::mbar_wait(bar(0), 0);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);  // here
    wgmma_commit();
    if (warp() != 3) hopper::mbar_wait(bar(0), 0);
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void proxy_fence_behind_issue(const __grid_constant__ RuleParams p) {
    for (int i = thread(); i < kRuleStage / 4; i += 128) words()[i] = 0;
    hopper::cta_sync();
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);  // here
    wgmma_commit();
    fence_proxy_async();
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void refilled_under_wgmma(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) load(p, 0, bar(0));
    hopper::mbar_wait(bar(0), 0);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);  // here
    wgmma_commit();
    if (thread() == 0) load(p, 0, bar(1));
    hopper::mbar_wait(bar(1), 0);
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void other_shape_in_flight(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);
    float(&half)[4] = *reinterpret_cast<float(*)[4]>(&d);
    wgmma_e4m3<8>(half, a_of(1), b_of(1), 1);  // here
    wgmma_commit();
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void other_shape_without_fence(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    float(&half)[4] = *reinterpret_cast<float(*)[4]>(&d);
    wgmma_e4m3<8>(half, a_of(1), b_of(1), 1);  // here
    wgmma_commit();
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void larger_array_in_its_place(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[16];
    float(&half)[8] = *reinterpret_cast<float(*)[8]>(&d);
    wgmma_fence(half);
    wgmma_e4m3<16>(half, a_of(0), b_of(0), 0);
    wgmma_commit();
    wgmma_wait<0>(half);
    wgmma_fence(d);
    wgmma_e4m3<32>(d, a_of(0), a_of(1), 0);
    wgmma_commit();
    p.out[thread()] = d[12];  // here
    wgmma_wait<0>(d);
    p.out[thread()] = d[13];
  }
  template <bool kTooEarly>
  __device__ __forceinline__ void nine_arrays(const RuleParams& p) {
    two_stages(p);
    float d[9][8];
    for (int i = 0; i < 9; ++i) wgmma_fence(d[i]);
    for (int i = 0; i < 9; ++i) wgmma_e4m3<16>(d[i], a_of(i & 1), b_of(0), 0);
    wgmma_commit();
    float sum = 0;
    if constexpr (kTooEarly) sum += d[0][0];  // here
    for (int i = 0; i < 9; ++i) wgmma_wait<0>(d[i]);
    for (int i = 0; i < 9; ++i) sum += d[i][1];
    p.out[thread()] = sum;
  }
  __global__ void first_of_nine_arrays(const __grid_constant__ RuleParams p) { nine_arrays<true>(p); }
  __global__ void nine_arrays_waited_for(const __grid_constant__ RuleParams p) { nine_arrays<false>(p); }
  __global__ void wait_names_other_array(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8], e[8];
    wgmma_fence(d);
    wgmma_fence(e);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);
    wgmma_e4m3<16>(e, a_of(1), b_of(1), 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
    p.out[thread()] = e[0];  // here
  }
  __global__ void exits_in_flight(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);  // here
    wgmma_commit();
  }
  __global__ void many_in_flight_at_exit(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    for (int i = 0; i < 80; ++i) wgmma_e4m3<16>(d, a_of(0), b_of(0), 1);  // here
    wgmma_commit();
  }
  __global__ void descriptor_of_half_a_step(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    const std::uint64_t a = hopper::desc_sw128(tile_a(0) + 8);  // here
    wgmma_e4m3<16>(d, a, b_of(0), 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
  __global__ void other_shape_behind_fence(const __grid_constant__ RuleParams p) {
    two_stages(p);
    float d[8];
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    float(&half)[4] = *reinterpret_cast<float(*)[4]>(&d);
    wgmma_fence(half);
    wgmma_e4m3<8>(half, a_of(1), b_of(1), 1);
    wgmma_commit();
    wgmma_wait<0>(half);
    p.out[thread()] = d[0] + d[5];
  }
  __global__ void leader_between(const __grid_constant__ RuleParams p) {
    two_stages(p);
    const bool leader = thread() == 0;
    float d[8];
    if (leader) p.out[200] = 1;
    wgmma_fence(d);
    wgmma_e4m3<16>(d, a_of(0), b_of(0), 0);
    if (leader) p.out[201] = 1;
    wgmma_commit();
    if (leader) p.out[202] = 1;
    wgmma_wait<0>(d);
    p.out[thread()] = d[0];
  }
}

std::span<const RuleKernel> wgmma_rules() {
  static constexpr RuleKernel kAll[] = {
      {"full_wait_behind_issue", run_rule<full_wait_behind_issue>, 128, "read-before-tma"},
      {"one_warp_waits_in_front", run_rule<one_warp_waits_in_front>, 128, "read-before-tma"},
      {"proxy_fence_behind_issue", run_rule<proxy_fence_behind_issue>, 128, "missing-proxy-fence"},
      {"refilled_under_wgmma", run_rule<refilled_under_wgmma>, 128, "read-before-tma"},
      {"other_shape_in_flight", run_rule<other_shape_in_flight>, 128, "accumulator-in-flight"},
      {"other_shape_without_fence", run_rule<other_shape_without_fence>, 128, "wgmma-fence"},
      {"larger_array_in_its_place", run_rule<larger_array_in_its_place>, 128, "accumulator-in-flight"},
      {"first_of_nine_arrays", run_rule<first_of_nine_arrays>, 128, "accumulator-in-flight"},
      {"wait_names_other_array", run_rule<wait_names_other_array>, 128, "accumulator-in-flight"},
      {"exits_in_flight", run_rule<exits_in_flight>, 128, "wgmma-unfinished"},
      {"many_in_flight_at_exit", run_rule<many_in_flight_at_exit>, 128, "wgmma-unfinished"},
      {"descriptor_of_half_a_step", run_rule<descriptor_of_half_a_step>, 128, "descriptor"},
      {"nine_arrays_waited_for", run_rule<nine_arrays_waited_for>, 128, nullptr},
      {"other_shape_behind_fence", run_rule<other_shape_behind_fence>, 128, nullptr},
      {"leader_between", run_rule<leader_between>, 128, nullptr},
  };
  return kAll;
}

}  // namespace moe::test
