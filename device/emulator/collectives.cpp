// Instructions that a whole warp or several warps execute together: shuffles, ballot, elect, mma.sync,
// convergence, CTA and named barriers. Only warp_sync, barriers and the wgmma wait order memory; the others
// order execution.
#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {
namespace {

/// bar.warp.sync may be executed at several places at once, from sm_70 on; everything else is .aligned.
void check_same_point(Cta& c, const WarpState& w, int warp, WarpPoint point, Pc pc) {
  if (w.arrived && (w.point != point || (w.pc != pc && point != WarpPoint::sync)))
    report(c, "warp-divergence", pc, "lanes of warp ", warp,
           " are at different warp-wide instructions: ", name(point), " and, at ", At{w.pc}, ", ",
           name(w.point));
}

/// Warp-wide exchange without memory order: all lanes arrive, the last one calls finish(), all leave.
template <class Finish>
void exchange(Cta& c, WarpPoint point, Pc pc, Finish finish) {
  Thread& t = *c.running;
  WarpState& w = c.warps[std::size_t(t.warp)];
  const std::uint32_t generation = w.generation;
  if (arrive_at_warp(c, point, pc, false)) {
    finish(w);
    release_warp(c, w, t.warp, false);
    wake(c, Blocked::warp, std::uint32_t(t.warp), t.warp * 32, t.warp * 32 + 32);
  }
  wait_for_warp(c, generation, Blocked::warp, std::uint32_t(t.warp), pc);
}

/// Fragments of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type").
void run_mma(Cta& c, const WarpState::Mma& m) {
  std::uint16_t a[16 * 16], b[8 * 16];
  float in[16 * 8], out[16 * 8];
  for (int lane = 0; lane < 32; ++lane) {
    const WarpState::Fragment& f = m.lanes[std::size_t(lane)];
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < 4; ++r) std::memcpy(a + (g + 8 * (r & 1)) * 16 + 2 * t + 8 * (r >> 1), &f.a[r], 4);
    for (int r = 0; r < 2; ++r) std::memcpy(b + g * 16 + 2 * t + 8 * r, &f.b[r], 4);
    for (int r = 0; r < 2; ++r) std::memcpy(in + (g + 8 * r) * 8 + 2 * t, f.d + 2 * r, 8);
  }
  c.options->arithmetic.mma_f16(a, b, in, out);
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 2; ++r)
      std::memcpy(m.lanes[std::size_t(lane)].d + 2 * r, out + (lane / 4 + 8 * r) * 8 + 2 * (lane % 4), 8);
  ++c.counts.mma;
}

const char* barrier_name(const NamedBarrier& b) { return b.all ? "cta_sync (barrier " : "named barrier ("; }

/// bar.sync is .aligned and counts whole warps: the lanes of a warp execute it together.
void check_whole_warps(Cta& c, NamedBarrier& b, int id) {
  for (std::size_t warp = 0; warp < c.warps.size(); ++warp) {
    const std::uint32_t missing = b.lanes[warp].mask ? c.warps[warp].alive & ~b.lanes[warp].mask : 0;
    if (missing)
      report(c, "barrier-divergence", b.lanes[warp].pc, __builtin_popcount(b.lanes[warp].mask), " of ",
             __builtin_popcount(c.warps[warp].alive), " lanes of warp ", std::uint64_t(warp), " execute ",
             barrier_name(b), id, "), lane ", __builtin_ctz(missing),
             " does not; bar.sync counts whole warps and is undefined in divergent code");
  }
  b.lanes.fill({});
}

/// Those who wait acquire here and not when they run again: by then the barrier may have served others.
void open_barrier(Cta& c, NamedBarrier& b, int id) {
  check_whole_warps(c, b, id);
  b.arrived = 0;
  ++b.generation;
  const SnapshotRef released = c.check ? b.gathering.publish(c.snapshots, false) : SnapshotRef();
  for (Thread& t : c.threads)
    if (&t == c.running || (t.blocked == Blocked::named_barrier && t.object == std::uint32_t(id)))
      acquire(c, t, released);
  wake(c, Blocked::named_barrier, std::uint32_t(id), 0, c.thread_count);
}

/// The lanes of a warp come to the same bar.sync, and nobody comes who might have been counted in the last
/// round.
void check_arrival(Cta& c, NamedBarrier& b, int id, Pc pc) {
  Thread& t = *c.running;
  NamedBarrier::Lanes& lanes = b.lanes[std::size_t(t.warp)];
  if (lanes.mask && lanes.pc != pc)
    report(c, "barrier-divergence", pc, "lanes of warp ", t.warp, " come to ", barrier_name(b), id,
           ") here and at ", At{lanes.pc}, ": bar.sync is undefined in divergent code");
  lanes.mask |= 1u << t.lane;
  lanes.pc = pc;
  if (c.check && b.last_thread >= 0 && !observer(t.knows, t.id).knows(b.last_thread, b.last_clock))
    report(c, "named-barrier", pc, Who{t.id}, " enters ", barrier_name(b), id, "), whose last round, with ",
           Who{b.last_thread}, " at ", At{b.last_pc},
           ", nothing orders before: it might have been counted in that one");
}

void barrier(Cta& c, int id, int count, bool all, Pc pc) {
  maybe_yield(c);
  if (id < 0 || id > 15 || count <= 0 || count % 32) {
    report(c, "named-barrier", pc, "bar.sync ", id, ", ", count,
           ": the id must be 0..15 and the count a positive multiple of 32");
    stop(c);
  }
  NamedBarrier& b = c.barriers[std::size_t(id)];
  if (b.arrived && b.count != count)
    report(c, "named-barrier", pc, "barrier ", id, " is entered with count ", count, " here and with count ",
           b.count, " at ", At{b.pc});
  if (!b.arrived) {
    b.count = count;
    b.all = all;
    b.pc = pc;
  }
  Thread& t = *c.running;
  check_arrival(c, b, id, pc);
  const Clock arrival = t.knows.own;
  release(c, t, b.gathering);
  const std::uint32_t generation = b.generation;
  if (++b.arrived == (b.all ? c.alive : b.count)) {
    b.last_thread = t.id;
    b.last_clock = arrival;
    b.last_pc = pc;
    open_barrier(c, b, id);
  }
  while (c.barriers[std::size_t(id)].generation == generation)
    block(c, Blocked::named_barrier, std::uint32_t(id), std::uint32_t(count), pc);
  maybe_yield(c);
}

/// setmaxnreg of the running thread's warp, whose lanes have all come: the same for all warps of the
/// warpgroup, which have synchronised since the last one (PTX ISA, "setmaxnreg").
void check_register_change(Cta& c, int registers, bool increase, Pc pc) {
  Thread& t = *c.running;
  Warpgroup& g = c.groups[std::size_t(t.group)];
  const auto warp = std::size_t(t.warp % 4);
  const std::size_t number = g.registers_changed[warp]++;
  if (number == g.register_changes.size()) {
    g.register_changes.emplace_back();
    g.register_changes.back().registers = registers;
    g.register_changes.back().increase = increase;
    g.register_changes.back().pc = pc;
  }
  Warpgroup::RegisterChange& change = g.register_changes[number];
  if (change.registers != registers || change.increase != increase)
    report(c, "setmaxnreg", pc, "warp ", t.warp, " executes setmaxnreg.", increase ? "inc " : "dec ",
           registers, " where another warp of its warpgroup executes setmaxnreg.",
           change.increase ? "inc " : "dec ", change.registers, " at ", At{change.pc});
  change.by[warp] = {t.id, t.knows.own};
  if (!c.check || number == 0) return;
  const Observer seen = observer(t.knows, t.id);
  for (const auto& [thread, clock] : g.register_changes[number - 1].by)
    if (clock == 0 || (thread / 32 != t.warp && !seen.knows(thread, clock)))
      return report(c, "setmaxnreg", pc, "warp ", t.warp,
                    " executes a second setmaxnreg although nothing orders "
                    "the one at ",
                    At{g.register_changes[number - 1].pc}, " of the other warps of its warpgroup before");
}

}  // namespace

std::string_view name(WarpPoint point) {
  static constexpr std::string_view kNames[] = {
      "nothing", "warp_sync", "elect_one",   "setmaxnreg.inc",     "setmaxnreg.dec",  "shuffle",
      "ballot",  "mma.sync",  "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"};
  return kNames[std::size_t(point)];
}

void leave_barriers(Cta& c, Thread& t) {
  c.warps[std::size_t(t.warp)].alive &= ~(1u << t.lane);
  NamedBarrier& b = c.barriers[0];
  if (b.all && b.arrived && b.arrived == c.alive) open_barrier(c, b, 0);
}

bool arrive_at_warp(Cta& c, WarpPoint point, Pc pc, bool orders_memory) {
  Thread& t = *c.running;
  WarpState& w = c.warps[std::size_t(t.warp)];
  check_same_point(c, w, t.warp, point, pc);
  if (!w.arrived) {
    w.point = point;
    w.pc = pc;
    w.argument = 0;
  }
  if (orders_memory) release(c, t, w.gathering);
  if (++w.arrived < 32) return false;
  for (int lane = 0; lane < 32; ++lane)
    if (c.threads[std::size_t(t.warp * 32 + lane)].converged != w.passed.size())
      report(c, "warp-divergence", pc, "lanes of warp ", t.warp,
             " have executed different numbers of wgmma.fence, "
             "wgmma.commit_group and mma.sync since they last converged");
  return true;
}

void release_warp(Cta& c, WarpState& w, int warp, bool orders_memory) {
  w.arrived = 0;
  ++w.generation;
  if (orders_memory && c.check) w.released = w.gathering.publish(c.snapshots, false);
  if (w.passed.empty()) return;
  w.passed.clear();
  for (int lane = 0; lane < 32; ++lane) c.threads[std::size_t(warp * 32 + lane)].converged = 0;
}

void wait_for_warp(Cta& c, std::uint32_t generation, Blocked why, std::uint32_t object, Pc pc) {
  const int warp = c.running->warp;
  while (c.warps[std::size_t(warp)].generation == generation) block(c, why, object, 0, pc);
}

void wait_for_mma(Cta& c, Thread& t, Pc pc) {
  while (c.warps[std::size_t(t.warp)].mma_done < t.mma_issued)
    block(c, Blocked::mma, std::uint32_t(t.warp), 0, pc);
  t.mma_lo = ~std::uintptr_t(0);
  t.mma_hi = 0;
}

void pass_warp_point(Cta& c, WarpPoint point, Pc pc) {
  Thread& t = *c.running;
  WarpState& w = c.warps[std::size_t(t.warp)];
  if (t.converged == w.passed.size())
    w.passed.push_back({point, pc});
  else if (const WarpState::Passed& p = w.passed[t.converged]; p.point != point || p.pc != pc)
    report(c, "warp-divergence", pc, Who{t.id}, " executes ", name(point),
           " where other lanes of its warp execute ", name(p.point), " at ", At{p.pc});
  ++t.converged;
}

}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

unsigned thread_index() noexcept { return unsigned(current->running->id); }
unsigned cta_index() noexcept { return current->index; }
unsigned cta_size() noexcept { return current->launch->block; }
unsigned grid_size() noexcept { return current->launch->grid; }
void at_tile(int expert, int row, int panel) { current->running->place = {expert, row, panel, -1, 0}; }
void at_k_block(int k_block, int stage) {
  current->running->place.k_block = k_block;
  current->running->place.stage = stage;
}
std::uint8_t* dynamic_smem() noexcept { return current->shared; }

void named_barrier(int id, int threads) { barrier(*current, id, threads, false, MOE_CALLER()); }
void cta_sync() { barrier(*current, 0, current->thread_count, true, MOE_CALLER()); }

void warp_sync() {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Thread& t = *c.running;
  WarpState& w = c.warps[std::size_t(t.warp)];
  const std::uint32_t generation = w.generation;
  if (arrive_at_warp(c, WarpPoint::sync, pc, true)) {
    release_warp(c, w, t.warp, true);
    wake(c, Blocked::warp, std::uint32_t(t.warp), t.warp * 32, t.warp * 32 + 32);
  }
  wait_for_warp(c, generation, Blocked::warp, std::uint32_t(t.warp), pc);
  acquire(c, t, w.released);
}

void setmaxnreg(int registers, bool increase) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  exchange(c, increase ? WarpPoint::setmaxnreg_inc : WarpPoint::setmaxnreg_dec, pc,
           [&](WarpState&) { check_register_change(c, registers, increase, pc); });
}

bool elect_one() {
  Cta& c = *current;
  exchange(c, WarpPoint::elect, MOE_CALLER(), [](WarpState&) {});
  return c.running->lane == c.elected;
}

std::uint32_t shfl(std::uint32_t value, int lane_or_mask, bool exclusive_or) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  const auto lane = std::size_t(c.running->lane);
  WarpState& w = c.warps[std::size_t(c.running->warp)];
  w.in[lane] = value;
  w.source[lane] = (exclusive_or ? int(lane) ^ lane_or_mask : lane_or_mask) & 31;
  exchange(c, WarpPoint::shuffle, pc, [](WarpState& all) {
    for (std::size_t i = 0; i < 32; ++i) all.out[i] = all.in[std::size_t(all.source[i])];
  });
  return w.out[lane];
}

std::uint32_t ballot(bool predicate) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  const auto lane = std::size_t(c.running->lane);
  WarpState& w = c.warps[std::size_t(c.running->warp)];
  w.in[lane] = predicate;
  exchange(c, WarpPoint::ballot, pc, [](WarpState& all) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 32; ++i) bits |= all.in[i] << i;
    all.out.fill(bits);
  });
  return w.out[lane];
}

void mma_f16(float* d, const std::uint32_t* a, const std::uint32_t* b) {
  Cta& c = *current;
  pass_warp_point(c, WarpPoint::mma, MOE_CALLER());
  Thread& t = *c.running;
  WarpState& w = c.warps[std::size_t(t.warp)];
  const std::uint32_t number = t.mma_issued++;
  if (number - w.mma_first == w.mma_queue.size()) w.mma_queue.emplace_back();
  WarpState::Mma& m = w.mma_queue[number - w.mma_first];
  WarpState::Fragment& f = m.lanes[std::size_t(t.lane)];
  f.d = d;
  std::memcpy(f.a, a, sizeof f.a);
  std::memcpy(f.b, b, sizeof f.b);
  const auto at = reinterpret_cast<std::uintptr_t>(d);
  t.mma_lo = std::min(t.mma_lo, at);
  t.mma_hi = std::max(t.mma_hi, at + 4 * sizeof(float));
  if (++m.arrived < 32) return;
  run_mma(c, m);
  ++w.mma_done;
  if (w.mma_done - w.mma_first == w.mma_queue.size()) {
    w.mma_first = w.mma_done;
    w.mma_queue.clear();
  }
  wake(c, Blocked::mma, std::uint32_t(t.warp), t.warp * 32, t.warp * 32 + 32);
}

}  // namespace moe::hopper::engine
