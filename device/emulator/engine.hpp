// Which parts of the emulated SM call each other? Internal declarations: reports, scheduling, checks of
// accesses, completion of asynchronous work. The entry points that kernels call are declared in
// device/hopper/emulated.hpp.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "device/emulator/cta.hpp"

namespace moe::device::emulator {

// ---- reports (report.cpp). Text is built only when the report is new.
extern const std::uintptr_t load_bias;  // of the program: code addresses are kept relative to it
inline Pc pc_of(const void* return_address) {
  return Pc(reinterpret_cast<std::uintptr_t>(return_address) - load_bias);
}
#define MOE_CALLER() ::moe::device::emulator::pc_of(__builtin_return_address(0))

struct At {  // prints as file:line
  Pc pc;
};
struct Who {  // prints as thread 37 (warp 1 lane 5)
  int thread;
};
struct Where {  // prints as " (tile of expert 0, row 8, panel 1; k-block 5, stage 2)", or nothing
  const Thread& thread;
};
void append(std::string& s, Where where);
void append(std::string& s, std::string_view text);
void append(std::string& s, At at);
void append(std::string& s, Who who);
void append(std::string& s, std::int64_t number);
inline void append(std::string& s, int number) { append(s, std::int64_t(number)); }
inline void append(std::string& s, std::uint32_t number) { append(s, std::int64_t(number)); }
inline void append(std::string& s, std::uint64_t number) { append(s, std::int64_t(number)); }
template <class... Parts>
std::string say(const Parts&... parts) {
  std::string s;
  (append(s, parts), ...);
  return s;
}
bool is_new_report(const Cta& c, const char* check, Pc pc);
void add_report(Cta& c, const char* check, Pc pc, std::string text);
/// Reports once per (check, code address). Does not return when the launch has enough reports.
template <class... Parts>
__attribute__((noinline, cold)) void report(Cta& c, const char* check, Pc pc, const Parts&... parts) {
  if (is_new_report(c, check, pc)) add_report(c, check, pc, say(parts...));
}

// ---- scheduling (scheduler.cpp)
void run_cta(Cta& c);
void start_threads(Cta& c);
/// Does asynchronous work until a thread is to run; null when the CTA has ended, or when all wait for others.
Thread* next_thread(Cta& c);
/// A thread or asynchronous work can go on without anybody else.
bool can_advance(const Cta& c);
/// Called now and then from the accesses of the running thread: one that only looks at the same few bytes
/// gives way to the others, and is a livelock when these cannot go on without it.
void look_for_spin(Cta& c, Thread& t, Pc pc);
/// Lets spinning threads look again; false when they have done so often enough.
bool wake_spinning(Cta& c);
/// The running thread leaves: whoever waits for all threads that have not exited may go on.
void leave_barriers(Cta& c, Thread& t);
void wake_thread(Cta& c, Thread& t);
/// `others`: how many CTAs besides this one wait too.
void report_deadlock(Cta& c, std::uint64_t others);
/// Takes the running thread off until something wakes it; it must then look again at what it waited for.
void block(Cta& c, Blocked why, std::uint32_t object, std::uint32_t argument, Pc pc);
void wake(Cta& c, Blocked why, std::uint32_t object, int first_thread, int last_thread);
void yield(Cta& c);
inline void maybe_yield(Cta& c, std::uint32_t rarity = 1) {
  if (c.preempt && c.random.below(std::uint32_t(c.preempt) * rarity) == 0) yield(c);
}
/// Ends the CTA; the running thread does not come back.
[[noreturn]] void stop(Cta& c);

// ---- knowledge of the running thread
inline void tick(Cta&, Thread& t) {  // what follows is not covered by what was released
  ++t.knows.own;
}
inline void acquire(Cta& c, Thread& t, const SnapshotRef& released) {
  t.window.progress = true;
  if (c.check) t.knows.base = c.snapshots.join(t.knows.base, released);
}
inline void release(Cta& c, Thread& t, Gathering& into) {
  if (c.check) into.add(c.snapshots, t.knows, t.id);
  t.window.progress = true;
  tick(c, t);
}

// ---- memory (shared_memory.cpp, global_access.cpp)
/// Offset of p in dynamic shared memory; stops the CTA when [p, p + bytes) leaves it.
std::uint32_t shared_offset(Cta& c, const void* p, std::uint32_t bytes, Pc pc, const char* what);
void shared_access(Cta& c, std::uint32_t offset, std::uint32_t bytes, bool write, Pc pc);
void async_read(Cta& c, std::uint32_t offset, std::uint32_t bytes, const Observer& seen, Pc pc,
                const char* what, AsyncReader reader);
/// `swizzle`: how it lays out what it writes; none: nobody knows.
void async_write(Cta& c, std::uint32_t offset, std::uint32_t bytes, const Observer& seen, Pc pc, int bar,
                 std::uint32_t phase, hopper::Swizzle swizzle);
/// Bounds, permission and the log of cross-CTA accesses; stops the CTA where the access itself would trap.
void global_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, Access kind, Pc pc, const char* what);
/// Of the access that global_access has just let through: does happens-before judge it?
inline bool is_ordered(const Cta& c, std::uintptr_t a) {
  return c.cached.ordered && a >= c.cached.lo && a < c.cached.hi;
}
void reset_shared(Cta& c);

// ---- engines
Mbarrier* find_mbarrier(Cta& c, const void* p, Pc pc, const char* what, int& index);
void complete_phase_if_due(Cta& c, int bar);
void copy_step(Cta& c, std::size_t i);       // one piece of copy i lands
void bulk_step(Cta& c, std::size_t queued);  // one bulk store is done
void run_wgmmas(Cta& c, int group, std::uint32_t upto);
void wgmma_step(Cta& c, int group);  // the next wgmma of the group, or a piece of one
/// What the thread's wgmmas in flight give is thrown away: it has broken the rule, and its frame may hold
/// other things by the time they run.
void discard_accumulators(Cta& c, const Thread& t);
/// Lets warps whose wgmma wait is satisfied go on.
void release_wgmma_waits(Cta& c, int group);

/// From now on an integer division that the host cannot do is a report (undefined_results.cpp).
void catch_divisions();

// ---- warp-wide instructions (collectives.cpp)
/// Registers the running lane; true for the lane that completes the warp.
bool arrive_at_warp(Cta& c, WarpPoint point, Pc pc, bool orders_memory);
void release_warp(Cta& c, WarpState& w, int warp, bool orders_memory);
void wait_for_warp(Cta& c, std::uint32_t generation, Blocked why, std::uint32_t object, Pc pc);
/// Waits for the mma.sync that the thread has issued: they run when their last lane arrives, and a lane waits
/// only where it touches the accumulators, so that a chain costs one switch and not one an instruction.
void wait_for_mma(Cta& c, Thread& t, Pc pc);
/// A warp-wide instruction that does not wait here: all lanes must pass the same ones in the same order.
void pass_warp_point(Cta& c, WarpPoint point, Pc pc);
std::string_view name(WarpPoint point);

}  // namespace moe::device::emulator
