// Instrumented unit: who may come to a barrier, and what may be asked of an mbarrier?
#include "tests/device/kernels/rule_kernels.cuh"

namespace moe::test {
MOE_KERNEL_NAMESPACE {
  __global__ void half_warps_at_a_barrier(const __grid_constant__ RuleParams p) {
    if (lane() < 16) hopper::named_barrier(1, 64);  // here
    p.out[thread()] = 1;
  }
  __global__ void leaders_at_a_barrier(const __grid_constant__ RuleParams p) {
    if (hopper::elect_one()) hopper::named_barrier(1, 32);  // here
    p.out[thread()] = 1;
  }
  __global__ void lanes_at_two_places(const __grid_constant__ RuleParams p) {
    if (lane() < 16) {
      words()[thread()] = 1;
      hopper::cta_sync();
    } else {
      words()[thread()] = 2;
      hopper::cta_sync();  // here
    }
    p.out[thread()] = words()[thread() ^ 1];
  }
  __global__ void groups_share_an_id(const __grid_constant__ RuleParams p) {
    float* mine = words() + thread() / 128 * 128;
    for (int i = 0; i < 2; ++i) {
      mine[thread() % 128] = float(i);
      hopper::named_barrier(1, 128);  // here
      p.out[thread()] = mine[thread() % 128 ^ 37];
      hopper::named_barrier(1, 128);  // here
    }
  }
  __global__ void id_0_beside_cta_sync(const __grid_constant__ RuleParams p) {
    if (warp() < 2) hopper::named_barrier(0, 64);
    hopper::cta_sync();  // here
    p.out[thread()] = 1;
  }
  __global__ void warp_skips_cta_sync(const __grid_constant__ RuleParams p) {
    if (warp() == 3) hopper::named_barrier(1, 64);
    if (warp() < 3) hopper::cta_sync();  // here
  }
  __global__ void warp_exits_early(const __grid_constant__ RuleParams p) {
    if (warp() == 3) return;
    words()[thread()] = float(thread());
    hopper::cta_sync();
    p.out[thread()] = words()[95 - thread()];
  }
  __global__ void warp_exits_last(const __grid_constant__ RuleParams p) {
    if (warp() == 3) {
      hopper::named_barrier(2, 64);
      return;
    }
    if (warp() == 2) hopper::named_barrier(2, 64);
    hopper::cta_sync();
    p.out[thread()] = 1;
  }
  __global__ void warps_at_two_places(const __grid_constant__ RuleParams p) {
    words()[thread()] = 1;
    if (warp() < 2)
      hopper::cta_sync();
    else
      hopper::named_barrier(0, 128);
    p.out[thread()] = words()[thread() ^ 64];
  }
  __global__ void id_used_again(const __grid_constant__ RuleParams p) {
    if (warp() < 2) hopper::named_barrier(1, 64);
    hopper::cta_sync();
    hopper::named_barrier(1, 128);
    p.out[thread()] = 1;
  }
  __global__ void warp_sync_at_two_places(const __grid_constant__ RuleParams p) {
    if (lane() < 16) {
      words()[thread()] = 1;
      hopper::warp_sync();
    } else {
      words()[thread()] = 2;
      hopper::warp_sync();
    }
    p.out[thread()] = words()[thread() ^ 16];
  }
  __global__ void leader_around_warp_sync(const __grid_constant__ RuleParams p) {
    if (lane() == 0) words()[warp()] = 3;
    hopper::warp_sync();
    if (lane() == 0) words()[16 + warp()] = 4;
    hopper::warp_sync();
    std::uint32_t bits = hopper::ballot(lane() == 0);
    if (lane() == 0) words()[32 + warp()] = float(bits);
    hopper::warp_sync();
    p.out[thread()] = words()[warp()] + words()[16 + warp()] + words()[32 + warp()];
  }

  __global__ void count_of_0(const __grid_constant__ RuleParams p) {
    if (thread() == 0) hopper::mbar_init(bar(0), 0);  // here
    p.out[thread()] = 1;
  }
  __global__ void count_too_large(const __grid_constant__ RuleParams p) {
    if (thread() == 0) hopper::mbar_init(bar(0), 1 << 20);  // here
    p.out[thread()] = 1;
  }
  __global__ void parity_of_2(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) hopper::mbar_arrive(bar(0));
    hopper::mbar_wait(bar(0), 2);  // here
    p.out[thread()] = 1;
  }
  __global__ void try_wait_not_looked_at(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) load(p, 0, bar(0));
    hopper::mbar_try_wait(bar(0), 0);
    p.out[thread()] = words()[thread()];  // here
    hopper::mbar_wait(bar(0), 0);
  }
  __global__ void try_wait_twice(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) load(p, 0, bar(0));
    if (!hopper::mbar_try_wait(bar(0), 0)) hopper::mbar_try_wait(bar(0), 0);
    p.out[thread()] = words()[thread()];  // here
    hopper::mbar_wait(bar(0), 0);
  }
  __global__ void try_wait_until_done(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) {
      load(p, 0, bar(0));
      load(p, 1, bar(1));
    }
    for (int done = 0; done != 3;) {
      if (!(done & 1) && hopper::mbar_try_wait(bar(0), 0)) done |= 1;
      if (!(done & 2) && hopper::mbar_try_wait(bar(1), 0)) done |= 2;
    }
    p.out[thread()] = words()[thread()] + words()[kRuleStage / 4 + thread()];
  }
  __global__ void exits_before_the_copy(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) {
      hopper::mbar_arrive_expect_tx(bar(0), kRuleBytesA);
      hopper::tma_load_2d(tile_a(0), &p.a, bar(0), 0, 0);  // here
    }
    p.out[thread()] = 1;
  }
  __global__ void second_box_not_announced(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) {
      hopper::mbar_arrive_expect_tx(bar(0), kRuleBytesA);
      hopper::tma_load_2d(tile_a(0), &p.a, bar(0), 0, 0);
      hopper::tma_load_2d(tile_b(0), &p.b, bar(0), 0, 0);  // here
    }
    hopper::mbar_wait(bar(0), 0);
    p.out[thread()] = words()[thread()];
  }
  __global__ void box_at_128(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) {
      hopper::mbar_arrive_expect_tx(bar(0), kRuleBytesA);
      hopper::tma_load_2d(tile_a(0) + 128, &p.a, bar(0), 0, 0);
    }
    hopper::mbar_wait(bar(0), 0);
    p.out[thread()] = words()[32 + thread()];
  }
  __global__ void box_of_no_map(const __grid_constant__ RuleParams p) {
    init(1);
    if (thread() == 0) hopper::tma_load_2d(tile_a(0), p.no_map, bar(0), 0, 0);  // here
    p.out[thread()] = 1;
  }
}

std::span<const RuleKernel> barrier_rules() {
  static constexpr RuleKernel kAll[] = {
      {"half_warps_at_a_barrier", run_rule<half_warps_at_a_barrier>, 128, "barrier-divergence"},
      {"leaders_at_a_barrier", run_rule<leaders_at_a_barrier>, 1024, "barrier-divergence"},
      {"lanes_at_two_places", run_rule<lanes_at_two_places>, 128, "barrier-divergence"},
      {"groups_share_an_id", run_rule<groups_share_an_id>, 256, "named-barrier"},
      {"id_0_beside_cta_sync", run_rule<id_0_beside_cta_sync>, 128, "named-barrier"},
      {"warp_skips_cta_sync", run_rule<warp_skips_cta_sync>, 128, "deadlock", false},
      {"warp_exits_early", run_rule<warp_exits_early>, 128, nullptr},
      {"warp_exits_last", run_rule<warp_exits_last>, 128, nullptr},
      {"warps_at_two_places", run_rule<warps_at_two_places>, 128, nullptr},
      {"id_used_again", run_rule<id_used_again>, 128, nullptr},
      {"warp_sync_at_two_places", run_rule<warp_sync_at_two_places>, 128, nullptr},
      {"leader_around_warp_sync", run_rule<leader_around_warp_sync>, 128, nullptr},
      {"count_of_0", run_rule<count_of_0>, 32, "mbarrier-count"},
      {"count_too_large", run_rule<count_too_large>, 32, "mbarrier-count"},
      {"parity_of_2", run_rule<parity_of_2>, 32, "mbarrier-parity"},
      {"try_wait_not_looked_at", run_rule<try_wait_not_looked_at>, 128, "read-before-tma"},
      {"try_wait_twice", run_rule<try_wait_twice>, 128, "read-before-tma"},
      {"try_wait_until_done", run_rule<try_wait_until_done>, 128, nullptr},
      {"exits_before_the_copy", run_rule<exits_before_the_copy>, 128, "copy-unfinished"},
      {"second_box_not_announced", run_rule<second_box_not_announced>, 128, "expect-tx"},
      {"box_at_128", run_rule<box_at_128>, 128, nullptr},
      {"box_of_no_map", run_rule<box_of_no_map>, 128, "tensor-map"},
  };
  return kAll;
}

}  // namespace moe::test
