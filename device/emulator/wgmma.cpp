// What does a warpgroup ask of the tensor core? An instruction forms when all 128 threads have issued it, is
// checked then by what each of them knew when it issued it, runs between then and the wait (wgmma_run.cpp),
// and all warps may count on it once one of them has waited.
#include <algorithm>

#include "device/emulator/wgmma_operand.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {
namespace {

constexpr int kThreads = sm90::kThreadsPerWarpgroup;

/// What all four warps of the group knew when they issued `op`; a lane's knowledge counts for its warp
/// (README.md, "Readings"). Instructions form in order and a thread forgets nothing, so what was learnt is
/// added.
void update_known(Cta& c, Warpgroup& g, WgmmaOp& op) {
  if (!op.learnt) return;
  const auto n = std::size_t(c.snapshots.components());
  for (std::size_t warp = 0; warp < 4; ++warp) {
    Gathering& learnt = (*op.learnt)[warp];
    if (learnt.empty()) continue;
    const SnapshotRef more = learnt.publish(c.snapshots, false);
    g.known[warp] = g.known[warp] ? c.snapshots.join(g.known[warp], more) : more;
  }
  op.learnt.reset();
  g.seen_by_all.assign(n, 0x7FFFFFFF);
  g.fenced_by_all.assign(n, 0x7FFFFFFF);
  for (const SnapshotRef& s : g.known) {
    for (std::size_t i = 0; i < n; ++i) {
      g.seen_by_all[i] = std::min(g.seen_by_all[i], s->seen[i]);
      g.fenced_by_all[i] = std::min(g.fenced_by_all[i], s->fenced[i]);
    }
  }
}

/// Notes what the running thread knows as it issues `op`.
void note_known(Cta& c, Thread& t, WgmmaOp& op) {
  const Thread::Known known{t.knows.base->id, t.knows.own, t.knows.fenced_own};
  if (known == t.known_at_issue) return;
  t.known_at_issue = known;
  if (!op.learnt) op.learnt = std::make_unique<std::array<Gathering, 4>>();
  (*op.learnt)[std::size_t(t.warp % 4)].add(c.snapshots, t.knows, t.id);
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
    update_known(c, g, op);
    const Observer seen{g.seen_by_all.data(), g.fenced_by_all.data(), -1, 0, 0};
    for (bool is_b : {false, true}) check_operand(c, op, is_b, &seen, {g.slot, number, 0});
  } else {
    for (bool is_b : {false, true}) check_operand(c, op, is_b, nullptr, {});
  }
  if (c.options->mode == Mode::eager) run_wgmmas(c, group, number);
}

Accumulators& accumulators_of(Thread& t, float* d, int registers) {
  const auto lo = reinterpret_cast<std::uintptr_t>(d), hi = lo + 4 * std::uintptr_t(registers);
  for (Accumulators& r : t.accumulators)
    if (r.lo == lo && r.hi == hi) return r;
  // frames come and go: what lies in the same place and is not in flight is another array's
  std::erase_if(t.accumulators, [&](const Accumulators& r) {
    return r.lo < hi && r.hi > lo && r.last_issue <= t.waited && !r.issued;
  });
  t.accumulators_lo = std::min(t.accumulators_lo, lo);
  t.accumulators_hi = std::max(t.accumulators_hi, hi);
  Accumulators r;
  r.lo = lo;
  r.hi = hi;
  return t.accumulators.emplace_back(r);
}

/// Only wgmmas of one shape are ordered among themselves where they share accumulators.
void check_other_shapes(Cta& c, Thread& t, const Accumulators& r, int n, Pc pc) {
  for (Accumulators& o : t.accumulators) {
    if (&o == &r || o.lo >= r.hi || o.hi <= r.lo) continue;
    if (o.last_issue > t.waited)
      report(c, "accumulator-in-flight", pc, Who{t.id}, " executes a wgmma with n = ", n,
             " on accumulator registers of the one at ", At{o.issued ? o.issued : pc},
             " with n = ", std::uint64_t(o.hi - o.lo) / 2,
             ", which is in flight; only wgmmas of one shape are ordered");
    else if (o.issued)
      report(c, "wgmma-fence", pc,
             "no wgmma.fence between the wgmma with n = ", std::uint64_t(o.hi - o.lo) / 2, " at ",
             At{o.issued}, " and this one with n = ", n, " on the same accumulators");
    o.issued = 0;
  }
}

void check_accumulators(Cta& c, Thread& t, Accumulators& r, int n, Pc pc) {
  if (c.check && t.accumulators.size() > 1) check_other_shapes(c, t, r, n, pc);
  if (c.check && !r.fenced)
    report(c, "wgmma-fence", pc, "no wgmma.fence before the first wgmma on these accumulators");
  else if (c.check && r.touched)
    report(c, "wgmma-fence", pc, "accumulator registers were accessed at ", At{r.touched},
           " after the last wgmma.fence");
  r.touched = 0;
  r.fenced = true;
  r.issued = pc;
}

/// A wait or fence that names `d` keeps the compiler from moving accesses of these registers across it.
void name_accumulators(Thread& t, const float* d, int registers) {
  const auto lo = reinterpret_cast<std::uintptr_t>(d), hi = lo + 4 * std::uintptr_t(registers);
  for (Accumulators& r : t.accumulators)
    if (r.lo < hi && r.hi > lo) r.named = std::min(r.last_issue, t.waited);
}

}  // namespace
}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

std::uint64_t descriptor(const void* p, Swizzle swizzle, std::uint32_t column_bytes) {
  const std::uint64_t offset = std::uint64_t(static_cast<const std::uint8_t*>(p) - current->shared);
  if (offset % 16)
    report(*current, "descriptor", MOE_CALLER(), "a matrix descriptor of shared offset ", offset,
           ": it holds multiples of 16 bytes, the rest of the address is lost");
  return (offset & 0x3FFFF) >> 4 | std::uint64_t(column_bytes >> 4) << 16 |
         std::uint64_t(8 * row_bytes(swizzle) >> 4) << 32 | std::uint64_t(swizzle) << 62;
}

void wgmma_fence(float* d, int registers) {
  Cta& c = *current;
  Thread& t = *c.running;
  for (Accumulators& r : t.accumulators) {  // the instruction covers all registers of the thread
    r.touched = r.issued = 0;
    r.fenced = true;
  }
  accumulators_of(t, d, registers).fenced = true;
  name_accumulators(t, d, registers);
  pass_warp_point(c, WarpPoint::fence, MOE_CALLER());
  maybe_yield(c);
}

void wgmma_e4m3(float* d, int n, std::uint64_t desc_a, std::uint64_t desc_b, bool scale_d) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  Thread& t = *c.running;
  maybe_yield(c, 4);
  Accumulators& r = accumulators_of(t, d, n / 2);
  check_accumulators(c, t, r, n, pc);
  const std::uint32_t number = r.last_issue = ++t.issued;
  t.last_wgmma = pc;
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
  if (c.check) note_known(c, t, op);
  if (++op.arrived == kThreads) formed(c, t.group, number);
}

void wgmma_commit() {
  Cta& c = *current;
  c.running->wgmma_groups.push_back(c.running->issued);
  pass_warp_point(c, WarpPoint::commit, MOE_CALLER());
  maybe_yield(c, 4);
}

void wgmma_wait(int groups_left, float* d, int registers) {
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
  name_accumulators(t, d, registers);
  acquire(c, t, w.released);
}

}  // namespace moe::hopper::engine
