// What does ptxas make of a copy that one lane issues behind a wait? As a branch of its own (TWO_BRANCHES)
// the whole warp issues it; in the wait's branch that lane does. machine_code.py must tell the two apart.
#include "device/hopper/hopper.hpp"

struct CopyAfterWaitParams {
  const std::uint8_t* source;
  int blocks;
};

__global__ void copy_after_wait(const __grid_constant__ CopyAfterWaitParams p) {
  using namespace moe;
  std::uint8_t* base = hopper::dynamic_smem();
  auto* full = reinterpret_cast<std::uint64_t*>(base + 8 * 1024);
  std::uint64_t* empty = full + 8;
  const bool leader = hopper::elect_one();
  const std::uint8_t* next = p.source;
  for (int k = 0; k < p.blocks; ++k) {
    const int slot = k % 8, phase = k / 8 % 2;
#ifdef TWO_BRANCHES
    if (leader && k >= 8) {
      hopper::mbar_wait(empty + slot, unsigned(phase));
      hopper::mbar_arrive_expect_tx(full + slot, 1024);
    }
    if (leader) {
      hopper::bulk_load(base + slot * 1024, next, 1024, full + slot);
      next += 1024;
    }
#else
    if (leader) {
      if (k >= 8) {
        hopper::mbar_wait(empty + slot, unsigned(phase));
        hopper::mbar_arrive_expect_tx(full + slot, 1024);
      }
      hopper::bulk_load(base + slot * 1024, next, 1024, full + slot);
      next += 1024;
    }
#endif
    hopper::warp_sync();
  }
}
