// mbarriers: arrivals and bytes of a phase, and the knowledge that a completed phase hands to those who wait
// for it.
#include "device/emulator/engine.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {

Mbarrier* find_mbarrier(Cta& c, const void* p, Pc pc, const char* what, int& index) {
  const std::uint32_t offset = shared_offset(c, p, 8, pc, what);
  for (std::size_t i = 0; i < c.mbarriers.size(); ++i) {
    Mbarrier& b = c.mbarriers[i];
    if (b.offset != offset) continue;
    index = int(i);
    if (c.check && c.running && b.init_thread != c.running->id &&
        !observer(c.running->knows, c.running->id).knows(b.init_thread, b.init_clock))
      report(c, "mbarrier-init-race", pc, Who{c.running->id},
             " uses an mbarrier before its initialisation at ", At{b.init_pc},
             " is ordered before this thread");
    return &b;
  }
  report(c, "mbarrier-uninitialised", pc, what, " on shared offset ", offset,
         ", where no mbarrier.init was executed");
  stop(c);
}

void complete_phase_if_due(Cta& c, int bar) {
  Mbarrier& b = c.mbarriers[std::size_t(bar)];
  if (b.pending != 0 || b.bytes_due != 0) return;
  if (b.copies_in_flight)
    report(c, "expect-tx", b.last_copy_pc,
           "the mbarrier phase completed although the copy issued here is in flight: expect_tx announced ",
           b.expected, " bytes, the copies of this phase carry ", b.issued);
  ++b.phase;
  b.completed_by = b.expected ? Mbarrier::Arrival() : b.arrival;
  c.failed_waits = 0;
  if (c.check) {
    b.released.raise(c.snapshots, c.mbarrier_component(bar), Clock(b.phase));
    b.acquired = b.released.publish(c.snapshots, true);
  }
  b.pending = int(b.count);
  b.expected = b.issued = 0;
  wake(c, Blocked::mbarrier, std::uint32_t(bar), 0, c.thread_count);
}

}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

namespace {
constexpr std::uint32_t kMaxCount = (1u << 20) - 1;  // PTX ISA, "Contents of the mbarrier object"

/// May mbarrier.try_wait of a phase that has completed come back without it, at its time limit? It may where
/// nothing orders the completion before the try: it might have been made earlier. A few times, so that a
/// kernel that tries until it succeeds goes on.
bool try_fails(Cta& c, Thread& t, std::uint32_t bar) {
  const Mbarrier& b = c.mbarriers[bar];
  const std::uint32_t phase = b.phase;
  if (!c.check || phase == 0) return false;
  const Observer seen = observer(t.knows, t.id);
  if (seen.knows(c.mbarrier_component(int(bar)), Clock(phase))) return false;
  if (b.completed_by.thread >= 0 && seen.knows(b.completed_by.thread, b.completed_by.clock)) return false;
  if (t.tried.size() <= bar) t.tried.resize(bar + 1);
  Thread::Tried& tried = t.tried[bar];
  if (tried.phase != phase) tried = {phase, 0};
  if (tried.times == 2) return false;
  ++tried.times;
  return c.lands_at_once() || c.random.below(2);
}
}  // namespace

void mbar_init(void* bar, std::uint32_t count) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  const std::uint32_t offset = shared_offset(c, bar, 8, pc, "mbarrier.init");
  if (offset % 8)
    report(c, "alignment", pc, "the mbarrier at shared offset ", offset, " is not 8-byte aligned");
  if (count == 0 || count > kMaxCount) {
    report(c, "mbarrier-count", pc, "mbarrier.init with a count of ", count, "; 1..", kMaxCount,
           " are legal");
    stop(c);
  }
  for (const Mbarrier& b : c.mbarriers)
    if (b.offset == offset)
      report(c, "mbarrier-object", pc, "mbarrier.init on an object that was initialised at ", At{b.init_pc});
  if (c.mbarriers.size() >= std::size_t(kMaxMbarriers)) {
    report(c, "limit", pc, "more than ", kMaxMbarriers, " mbarriers are not emulated");
    stop(c);
  }
  Thread& t = *c.running;
  tick(c, t);
  Mbarrier b;
  b.offset = offset;
  b.count = count;
  b.pending = int(count);
  b.init_thread = t.id;
  b.init_clock = t.knows.own;
  b.init_pc = pc;
  c.mbarriers.push_back(std::move(b));
  c.granules[offset / kGranule].mbarrier_bytes |= std::uint16_t(0xFFu << offset % kGranule);
  tick(c, t);
}

void fence_mbar_init() {
  Cta& c = *current;
  for (Mbarrier& b : c.mbarriers)
    if (b.init_thread == c.running->id && !b.fenced) b.fenced = c.running->knows.own;
  maybe_yield(c);
}

void fence_proxy_async(bool global) {
  Cta& c = *current;
  Thread& t = *c.running;
  if (c.check) {
    t.knows.base = c.snapshots.fence(t.knows.base, global);
    t.knows.fenced_own = t.knows.own;
    if (global) t.knows.passed_own = t.knows.own;
  }
  tick(c, t);
  maybe_yield(c);
}

void mbar_arrive(void* bar, std::uint32_t bytes, bool expect) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  int index = 0;
  Mbarrier& b = *find_mbarrier(c, bar, pc, "mbarrier.arrive", index);
  b.arrival = {c.running->id, c.running->knows.own};
  release(c, *c.running, b.released);
  if (expect) {
    b.bytes_due += bytes;
    b.expected += bytes;
  }
  if (b.pending == 0)
    report(c, "mbarrier-arrivals", pc, Who{c.running->id}, " arrives on the mbarrier initialised at ",
           At{b.init_pc}, " (count ", b.count, ") whose phase ", b.phase, " has no arrivals left");
  else
    --b.pending;
  complete_phase_if_due(c, index);
}

bool mbar_wait(void* bar, std::uint32_t parity, bool may_fail) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  int index = 0;
  find_mbarrier(c, bar, pc, "mbarrier.try_wait", index);
  if (parity > 1) {
    report(c, "mbarrier-parity", pc, "a wait for parity ", parity, " of the mbarrier initialised at ",
           At{c.mbarriers[std::size_t(index)].init_pc}, ": it is 0 or 1, of the phase's number");
    parity &= 1;
  }
  const auto incomplete = [&] { return (c.mbarriers[std::size_t(index)].phase & 1) == parity; };
  while (incomplete()) {  // tested when scheduled, so that a phase can be missed as on the card
    c.running->may_fail = may_fail;
    block(c, Blocked::mbarrier, std::uint32_t(index), parity, pc);
    if (may_fail && incomplete()) return false;
  }
  if (may_fail && try_fails(c, *c.running, std::uint32_t(index))) {
    maybe_yield(c);
    return false;
  }
  Mbarrier& b = c.mbarriers[std::size_t(index)];
  if (b.phase) acquire(c, *c.running, b.acquired);  // parity 1 of a fresh mbarrier: nothing has completed yet
  maybe_yield(c);
  return true;
}

}  // namespace moe::hopper::engine
