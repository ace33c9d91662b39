#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"

namespace moe::device::emulator {
namespace {

void set_runnable(Cta& c, Thread& t) {
  t.blocked = Blocked::no;
  c.runnable[std::size_t(t.warp)] |= 1u << t.lane;
  c.runnable_warps |= 1u << t.warp;
}

void clear_runnable(Cta& c, Thread& t) {
  if (!(c.runnable[std::size_t(t.warp)] &= ~(1u << t.lane))) c.runnable_warps &= ~(1u << t.warp);
}

// ---- asynchronous work that may be done next
enum Engine { kCopies, kWgmmas, kBulkStores };

bool wgmma_pending(const Cta& c) {
  for (const Warpgroup& g : c.groups)
    if (g.done < g.formed) return true;
  return false;
}

void async_step(Cta& c, Engine engine) {
  if (engine == kCopies) return copy_step(c, c.random.below(std::uint32_t(c.copies.size())));
  if (engine == kBulkStores) return bulk_step(c, c.random.below(std::uint32_t(c.bulk_queue.size())));
  std::uint32_t pending = 0;
  for (std::size_t g = 0; g < c.groups.size(); ++g)
    if (c.groups[g].done < c.groups[g].formed) pending |= 1u << g;
  wgmma_step(c, c.random.bit(pending));
}

/// Bits of the engines that have something to do.
std::uint32_t pending_engines(const Cta& c) {
  return (c.copies.empty() ? 0u : 1u << kCopies) | (wgmma_pending(c) ? 1u << kWgmmas : 0u) |
         (c.bulk_queue.empty() ? 0u : 1u << kBulkStores);
}

/// The engine of highest priority when it is above every runnable warp's, else -1.
int preferred_engine(const Cta& c, std::uint32_t pending) {
  std::uint32_t best_warp = 0, best = 0;
  int engine = -1;
  for (std::uint32_t w = c.runnable_warps; w; w &= w - 1)
    best_warp = std::max(best_warp, c.priority[std::size_t(__builtin_ctz(w))]);
  for (std::uint32_t e = pending; e; e &= e - 1) {
    const std::uint32_t p = c.priority[std::size_t(kMaxWarps + __builtin_ctz(e))];
    if (p > best) best = p, engine = __builtin_ctz(e);
  }
  return best > best_warp ? engine : -1;
}

/// -1: a thread runs next.
int choose_engine(Cta& c, std::uint32_t pending) {
  if (!pending) return -1;
  if (!c.runnable_warps) return c.random.bit(pending);
  if (c.options->mode == Mode::pct) return preferred_engine(c, pending);
  if (c.options->mode == Mode::random && c.random.below(4) == 0) return c.random.bit(pending);
  return -1;
}

Thread& choose_thread(Cta& c) {
  int warp = __builtin_ctz(c.runnable_warps), lane = -1;
  if (c.options->mode == Mode::pct) {
    for (std::uint32_t w = c.runnable_warps; w; w &= w - 1) {
      const int i = __builtin_ctz(w);
      if (c.priority[std::size_t(i)] >= c.priority[std::size_t(warp)]) warp = i;
    }
  } else if (c.options->mode != Mode::deterministic) {
    warp = c.random.bit(c.runnable_warps);
    lane = c.random.bit(c.runnable[std::size_t(warp)]);
  }
  if (lane < 0) lane = __builtin_ctz(c.runnable[std::size_t(warp)]);
  return c.threads[std::size_t(warp * 32 + lane)];
}

// ---- deadlock
void describe_wait(const Cta& c, const Thread& t, std::string& s) {
  if (t.blocked == Blocked::mbarrier) {
    const Mbarrier& b = c.mbarriers[t.object];
    s += say("parity ", t.argument, " of the mbarrier at shared offset ", b.offset, " (initialised at ",
             At{b.init_pc}, ", count ", b.count, "); its phase ", b.phase, " lacks ", b.pending,
             " arrival(s) and ", b.bytes_due, " byte(s), expect_tx announced ", b.expected, ", copies carry ",
             b.issued);
  } else if (t.blocked == Blocked::named_barrier) {
    const NamedBarrier& b = c.barriers[t.object];
    s += b.all ? say("cta_sync: ", b.arrived, " of ", c.alive, " threads that have not exited arrived")
               : say("named barrier ", t.object, ": ", b.arrived, " of ", b.count, " arrived");
  } else if (t.blocked == Blocked::warp) {
    s += say("a warp-wide ", name(c.warps[t.object].point), ": ", c.warps[t.object].arrived,
             " of 32 lanes arrived");
  } else if (t.blocked == Blocked::wgmma) {
    const Warpgroup& g = c.groups[t.object];
    s += "its wgmmas";
    if (g.formed < g.first + g.ops.size()) {
      const WgmmaOp& op = g.ops[g.formed - g.first];
      s += say("; the one at ", At{op.pc}, " was executed by ", op.arrived, " of 128 threads");
    }
  } else if (t.blocked == Blocked::mma) {
    const WarpState& w = c.warps[t.object];
    s += say("its mma.sync, ", w.mma_queue.empty() ? 0 : w.mma_queue.back().arrived, " of 32 lanes arrived");
  } else if (t.blocked == Blocked::poll) {
    const Region* r = c.memory->find(t.polled.address);
    std::uint32_t word = 0;
    std::memcpy(&word, t.polled.value, sizeof word);
    s += say("another value of byte ", std::uint64_t(r ? t.polled.address - r->lo : 0), " of '",
             r ? std::string_view(r->name) : "?", "', which holds ", word);
  } else if (t.blocked == Blocked::spin) {
    s += "what it looks at again and again, which nobody changes";
  } else {
    s += "its bulk stores";
  }
}

/// What a thread that exits leaves undone.
void check_exit(Cta& c, Thread& t) {
  if (t.issued != t.waited) {
    report(c, "wgmma-unfinished", t.last_wgmma, Who{t.id},
           " exits with this wgmma in flight (no wgmma.wait_group covers it)");
    discard_accumulators(c, t);
  }
  for (std::uint32_t number : t.bulk_stores)
    if (!c.bulk_stores[number].waited) {
      report(c, "bulk-store-unfinished", c.bulk_stores[number].pc, Who{t.id},
             " exits without waiting for this bulk store");
      break;
    }
  for (std::size_t bar = 0; c.check && bar < c.mbarriers.size(); ++bar) {
    Mbarrier& b = c.mbarriers[bar];
    const auto seen = std::uint32_t(t.knows.base->seen[c.mbarrier_component(int(bar))]);
    b.seen_phase = std::max(b.seen_phase, seen);
  }
}

/// What a CTA leaves undone whose last thread exits: its shared memory is another CTA's then.
void check_end(Cta& c) {
  for (const Mbarrier& b : c.mbarriers) {
    if (b.bytes_due < 0)
      report(c, "expect-tx", b.last_copy_pc, "the copies on the mbarrier initialised at ", At{b.init_pc},
             " have brought ", -b.bytes_due, " bytes that no expect_tx has announced");
    else if (c.check && b.copy_phase > b.seen_phase)
      report(c, "copy-unfinished", b.last_copy_pc, "the CTA exits although no thread has waited for phase ",
             b.copy_phase - 1, " of the mbarrier that this copy signals (initialised at ", At{b.init_pc},
             "): it may land in shared memory that is another CTA's by then");
  }
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    const Warpgroup& group = c.groups[g];
    for (std::size_t warp = 4 * g; warp < std::min(4 * g + 4, c.warps.size()); ++warp)
      if (group.registers_changed[warp % 4] != group.register_changes.size())
        return report(c, "setmaxnreg", group.register_changes.back().pc, "warp ", std::uint64_t(warp),
                      " does not execute this setmaxnreg, which all warps of a warpgroup must execute");
  }
}

bool any_spins(const Cta& c) {
  return std::any_of(c.threads.begin(), c.threads.end(),
                     [](const Thread& t) { return t.blocked == Blocked::spin; });
}

}  // namespace

void report_deadlock(Cta& c, std::uint64_t others) {
  c.deadlock = c.stopped = true;
  std::map<std::pair<Blocked, Pc>, std::vector<const Thread*>> waiting;
  for (const Thread& t : c.threads)
    if (t.blocked != Blocked::done) waiting[{t.blocked, t.pc}].push_back(&t);
  std::string s = (any_spins(c) ? "livelock of CTA " : "deadlock of CTA ") + std::to_string(c.index);
  const char* separator = ": ";
  for (const auto& [key, threads] : waiting) {
    s += say(separator, std::uint64_t(threads.size()), " thread(s), first ", Who{threads[0]->id},
             Where{*threads[0]}, ", wait at ", At{key.second}, " for ");
    describe_wait(c, *threads[0], s);
    separator = "; ";
  }
  if (others) s += say("; ", others, " more CTA(s) wait too");
  add_report(c, any_spins(c) ? "livelock" : "deadlock", waiting.empty() ? 0 : waiting.begin()->first.second,
             std::move(s));
}

/// mbarrier.try_wait gives up after a while: a kernel may do something else then, like arrive itself. One
/// that only tries again is in a deadlock.
static bool fail_waits(Cta& c) {
  constexpr int kRounds = 64;
  if (++c.failed_waits > kRounds) return false;
  for (Thread& t : c.threads)
    if (t.blocked == Blocked::mbarrier && t.may_fail) set_runnable(c, t);
  return c.runnable_warps != 0;
}

bool wake_spinning(Cta& c) {
  constexpr int kRounds = 16;
  if (!any_spins(c) || ++c.spin_rounds > kRounds) return false;
  for (Thread& t : c.threads)
    if (t.blocked == Blocked::spin) set_runnable(c, t);
  return true;
}

void look_for_spin(Cta& c, Thread& t, Pc pc) {
  constexpr std::uintptr_t kFewBytes = 64;
  t.next_look = t.accesses + kSpinAccesses;
  const Thread::Window seen = std::exchange(t.window, {});
  if (seen.progress || (seen.hi > seen.lo && seen.hi - seen.lo > kFewBytes)) {
    c.spin_rounds = 0;
    return;
  }
  block(c, Blocked::spin, 0, 0, pc);
}

bool can_advance(const Cta& c) { return !c.stopped && (c.runnable_warps || pending_engines(c)); }

void wake_thread(Cta& c, Thread& t) { set_runnable(c, t); }

void wake(Cta& c, Blocked why, std::uint32_t object, int first, int last) {
  for (int i = first; i < last; ++i) {
    Thread& t = c.threads[std::size_t(i)];
    if (t.blocked == why && t.object == object) set_runnable(c, t);
  }
}

/// Runs on the stack of whoever gives up control, so that going from thread to thread is one switch.
Thread* next_thread(Cta& c) {
  c.running = nullptr;
  for (; !c.stopped; ++c.steps) {
    const std::uint32_t pending = pending_engines(c);
    if (!c.runnable_warps && !pending && !c.together && c.polling) {  // another CTA may have written
      wake(c, Blocked::poll, 0, 0, c.thread_count);
      continue;
    }
    if (!c.runnable_warps && !pending && (fail_waits(c) || (!c.together && wake_spinning(c)))) continue;
    if (!c.runnable_warps && !pending) {
      const auto polls = [](const Thread& t) {
        return t.blocked == Blocked::poll || t.blocked == Blocked::spin;
      };
      const bool waits = c.together && std::any_of(c.threads.begin(), c.threads.end(), polls);
      if (c.alive && !waits) report_deadlock(c, 0);
      return nullptr;
    }
    if (c.steps >= c.options->max_switches) {
      c.stopped = true;
      add_report(c, "livelock", c.threads[0].pc,
                 say("CTA ", c.index, " did not end within ", c.options->max_switches, " steps"));
      return nullptr;
    }
    if (c.options->mode == Mode::pct && c.steps >= c.next_change) {
      c.priority[c.random.below(std::uint32_t(c.priority.size()))] = 1 + c.random.below(1000);
      c.next_change = c.steps + 1 + c.random.below(2000);
    }
    const int engine = choose_engine(c, pending);
    if (engine < 0) {
      ++c.steps;
      return &choose_thread(c);
    }
    async_step(c, Engine(engine));
  }
  return nullptr;
}

void yield(Cta& c) {
  Thread& t = *c.running;
  Cta* to = &c;
  Thread* next = c.together ? next_of_group(c, to) : next_thread(c);
  to->running = next;
  if (next == &t) return;
  ++c.switches;
  switch_fiber(t.fiber, next ? next->fiber : c.together ? c.together->scheduler : c.scheduler);
}

void block(Cta& c, Blocked why, std::uint32_t object, std::uint32_t argument, Pc pc) {
  Thread& t = *c.running;
  t.blocked = why;
  t.object = object;
  t.argument = argument;
  t.pc = pc;
  clear_runnable(c, t);
  yield(c);
}

void stop(Cta& c) {
  c.stopped = true;
  for (;;) yield(c);  // the scheduler does not resume a stopped CTA
}

/// First and last thing of a CUDA thread.
void thread_main(boost::context::detail::transfer_t transfer) {
  Cta& c = *current;
  Thread& t = *c.running;
  arrived(transfer, t.fiber);
  c.launch->run(c.launch->params);
  wait_for_mma(c, t, t.pc);  // lanes that never come make a deadlock, not a silence
  check_exit(c, t);
  t.blocked = Blocked::done;
  --c.alive;
  clear_runnable(c, t);
  leave_barriers(c, t);
  if (c.alive == 0) check_end(c);
  for (;;) yield(c);
}

void start_threads(Cta& c) {
  c.threads.resize(std::size_t(c.thread_count));
  c.runnable.fill(0);
  c.runnable_warps = 0;
  const SnapshotRef nothing = c.check ? c.snapshots.zero() : SnapshotRef();
  for (int i = 0; i < c.thread_count; ++i) {
    Thread& t = c.threads[std::size_t(i)];
    t = Thread{};
    t.id = i;
    t.warp = i / 32;
    t.lane = i % 32;
    t.group = i / 128;
    t.knows.base = nothing;
    t.stack_bottom = reinterpret_cast<std::uintptr_t>(c.stacks.bottom(i));
    t.fiber.stack = c.stacks.bottom(i);
    t.fiber.stack_bytes = kStackBytes;
    c.stacks.forget_frames(i);
    std::byte* top = c.stacks.top(i);
    t.fiber.context =
        boost::context::detail::make_fcontext(top, std::size_t(top - c.stacks.bottom(i)), thread_main);
    set_runnable(c, t);
  }
  c.alive = c.thread_count;
}

void run_cta(Cta& c) {
  start_threads(c);
  c.running = next_thread(c);
  if (c.running) switch_fiber(c.scheduler, c.running->fiber);  // comes back when the CTA has ended
  c.running = nullptr;
}

}  // namespace moe::device::emulator
