// What does a warpgroup ask of the tensor core? An instruction forms when all 128 threads have issued it, is
// checked then, runs between then and the wait (wgmma_run.cpp), and all warps may count on it once one of
// them has waited.
#include <algorithm>

#include "device/emulator/wgmma_operand.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {
namespace {

constexpr int kThreads = sm90::kThreadsPerWarpgroup;

/// What all four warps of the group know; a lane's knowledge counts for its warp (README.md, "Readings").
void update_minimum(Cta& c, Warpgroup& g, int group) {
  if (g.minimum_version == g.knowledge_version) return;
  g.minimum_version = g.knowledge_version;
  const auto n = std::size_t(c.snapshots.components());
  g.seen_by_all.assign(n, 0x7FFFFFFF);
  g.fenced_by_all.assign(n, 0x7FFFFFFF);
  for (int warp = 0; warp < 4; ++warp) {
    Gathering known;
    for (int lane = 0; lane < 32; ++lane) {
      const Thread& t = c.threads[std::size_t(group * kThreads + warp * 32 + lane)];
      known.add(c.snapshots, t.knows, t.id);
    }
    const SnapshotRef s = known.publish(c.snapshots, false);
    for (std::size_t i = 0; i < n; ++i) {
      g.seen_by_all[i] = std::min(g.seen_by_all[i], s->seen[i]);
      g.fenced_by_all[i] = std::min(g.fenced_by_all[i], s->fenced[i]);
    }
  }
}

void formed(Cta& c, int group, std::uint32_t number) {
  Warpgroup& g = c.groups[std::size_t(group)];
  g.formed = number;
  WgmmaOp& op = g.op(number);
  if (g.slot < 0) {
    if (c.reader_slots == kReaderSlots) {
      report(c, "limit", op.pc, "more than ", kReaderSlots, " warpgroups with wgmma are not emulated");
      stop(c);
    }
    g.slot = c.reader_slots++;
  }
  if (c.check) {
    update_minimum(c, g, group);
    const Observer seen{g.seen_by_all.data(), g.fenced_by_all.data(), -1, 0, 0};
    for (bool is_b : {false, true}) check_operand(c, op, is_b, &seen, {g.slot, number, 0});
  } else {
    for (bool is_b : {false, true}) check_operand(c, op, is_b, nullptr, {});
  }
  if (c.options->mode == Mode::eager) run_wgmmas(c, group, number);
}

Accumulators& accumulators_of(Thread& t, float* d, int registers) {
  const auto lo = reinterpret_cast<std::uintptr_t>(d);
  for (int i = 0; i < t.accumulator_count; ++i)
    if (t.accumulators[std::size_t(i)].lo == lo) return t.accumulators[std::size_t(i)];
  if (t.accumulator_count == int(t.accumulators.size())) {  // frames come and go: forget the oldest
    std::move(t.accumulators.begin() + 1, t.accumulators.end(), t.accumulators.begin());
    --t.accumulator_count;
  }
  Accumulators& r = t.accumulators[std::size_t(t.accumulator_count++)];
  r = {lo, lo + 4 * std::uintptr_t(registers), 0, 0, false};
  return r;
}

}  // namespace
}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

std::uint64_t descriptor(const void* p, Swizzle swizzle, std::uint32_t column_bytes) {
  const std::uint64_t offset = std::uint64_t(static_cast<const std::uint8_t*>(p) - current->shared);
  return (offset & 0x3FFFF) >> 4 | std::uint64_t(column_bytes >> 4) << 16 |
         std::uint64_t(8 * row_bytes(swizzle) >> 4) << 32 | std::uint64_t(swizzle) << 62;
}

void wgmma_fence(float* d, int registers) {
  Cta& c = *current;
  Thread& t = *c.running;
  accumulators_of(t, d, registers);
  for (int i = 0; i < t.accumulator_count; ++i) {  // the instruction covers all registers of the thread
    t.accumulators[std::size_t(i)].touched = 0;
    t.accumulators[std::size_t(i)].fenced = true;
  }
  pass_warp_point(c, WarpPoint::fence, MOE_CALLER());
  maybe_yield(c);
}

void wgmma_e4m3(float* d, int n, std::uint64_t desc_a, std::uint64_t desc_b, bool scale_d) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  Thread& t = *c.running;
  maybe_yield(c, 4);
  Accumulators& r = accumulators_of(t, d, n / 2);
  if (c.check && !r.fenced)
    report(c, "wgmma-fence", pc, "no wgmma.fence before the first wgmma on these accumulators");
  else if (c.check && r.touched)
    report(c, "wgmma-fence", pc, "accumulator registers were accessed at ", At{r.touched},
           " after the last wgmma.fence");
  r.touched = 0;
  r.fenced = true;
  const std::uint32_t number = r.last_issue = ++t.issued;
  Warpgroup& g = c.groups[std::size_t(t.group)];
  if (g.first + g.ops.size() < number) {
    WgmmaOp op;
    op.desc_a = desc_a;
    op.desc_b = desc_b;
    op.n = n;
    op.scale_d = scale_d;
    op.pc = pc;
    g.ops.push_back(std::move(op));
  }
  WgmmaOp& op = g.op(number);
  if (op.desc_a != desc_a || op.desc_b != desc_b || op.scale_d != scale_d || op.n != n || op.pc != pc)
    report(c, "wgmma-not-uniform", pc, Who{t.id},
           " executes a different wgmma (or other descriptors) than the rest of its warpgroup, which is at ",
           At{op.pc});
  op.d[std::size_t(t.id % kThreads)] = d;
  if (++op.arrived == kThreads) formed(c, t.group, number);
}

void wgmma_commit() {
  Cta& c = *current;
  c.running->wgmma_groups.push_back(c.running->issued);
  pass_warp_point(c, WarpPoint::commit, MOE_CALLER());
  maybe_yield(c, 4);
}

void wgmma_wait(int groups_left, float*, int) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Thread& t = *c.running;
  std::uint32_t need = t.waited;
  if (int(t.wgmma_groups.size()) > groups_left) {
    const std::size_t over = t.wgmma_groups.size() - std::size_t(groups_left);
    need = std::max(need, t.wgmma_groups[over - 1]);
    t.wgmma_groups.erase(t.wgmma_groups.begin(), t.wgmma_groups.begin() + std::ptrdiff_t(over));
  }
  WarpState& w = c.warps[std::size_t(t.warp)];
  const std::uint32_t generation = w.generation;
  const bool last = arrive_at_warp(c, WarpPoint::wait, pc, true);
  w.argument = std::max(w.argument, need);
  if (last) {
    const Warpgroup& g = c.groups[std::size_t(t.group)];
    if (c.options->mode == Mode::deterministic && g.done < w.argument && g.formed >= w.argument)
      run_wgmmas(c, t.group, w.argument);
    else
      release_wgmma_waits(c, t.group);
  }
  wait_for_warp(c, generation, Blocked::wgmma, std::uint32_t(t.group), pc);
  t.waited = std::max(t.waited, need);
  acquire(c, t, w.released);
}

}  // namespace moe::hopper::engine
