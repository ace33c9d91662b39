#include "device/emulator/cta_group.hpp"

#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"

namespace moe::device::emulator {
namespace {

/// A CTA that can go on, or null. Deterministic: the one that runs stays, then the lowest.
Cta* choose_cta(CtaGroup& g, Cta& from) {
  const Mode mode = from.options->mode;
  std::vector<Cta*> ready;
  const bool stays = can_advance(from);
  if (mode == Mode::pct) {
    if (++g.steps >= g.next_change) {
      g.priority[g.random.below(std::uint32_t(g.priority.size()))] = 1 + g.random.below(1000);
      g.next_change = g.steps + 1 + g.random.below(500);
    }
  } else if (stays && (mode == Mode::deterministic || g.random.below(4) != 0)) {
    return &from;
  }
  for (Cta* c : g.ctas)
    if (can_advance(*c)) ready.push_back(c);
  if (ready.empty()) return nullptr;
  if (mode == Mode::deterministic) return ready.front();
  if (mode != Mode::pct) return ready[g.random.below(std::uint32_t(ready.size()))];
  return *std::max_element(ready.begin(), ready.end(),
                           [&](Cta* a, Cta* b) { return g.priority[a->slot] < g.priority[b->slot]; });
}

void report_group_deadlock(CtaGroup& g) {
  std::uint64_t waiting = 0;
  for (const Cta* c : g.ctas) waiting += c->alive > 0;
  for (Cta* c : g.ctas)
    if (c->alive > 0) return report_deadlock(*c, waiting - 1);
}

bool same(const Thread::Polled& p, std::uintptr_t a, std::uint32_t bytes) {
  return std::memcmp(p.value, reinterpret_cast<const void*>(a), bytes) == 0;
}

/// In a launch that is not cooperative: another warp of the CTA may write the value, or another CTA, which
/// may run on another host thread, or never.
void poll_alone(Cta& c, Thread& t, std::uintptr_t a, std::uint32_t bytes, Pc pc) {
  constexpr std::uint32_t kPatience = 1'000'000;
  Thread::Polled& p = t.polled;
  const bool again = p.pc == pc && p.address == a && same(p, a, bytes);
  p.tries = again ? p.tries + 1 : 0;
  p.pc = pc;
  p.address = a;
  std::memcpy(p.value, reinterpret_cast<const void*>(a), bytes);
  if (p.tries > kPatience / std::uint32_t(1 + c.polling)) {
    report(c, "livelock", pc, Who{t.id}, " of CTA ", std::uint64_t(c.index),
           " polls a value that does not change; the launch is not cooperative, so whoever writes it may "
           "never run");
    stop(c);
  }
  if (!again) return yield(c);
  ++c.polling;
  block(c, Blocked::poll, 0, 0, pc);  // until this CTA writes, or has nothing else to do
  --c.polling;
}

/// Nobody can go on. A thread may have polled a value that it had seen and that was right already, so all
/// look again a few times before that is called a deadlock.
bool all_look_again(CtaGroup& g) {
  constexpr int kRounds = 64;
  if (g.quiet_since != g.changes) g.quiet_rounds = 0;
  g.quiet_since = g.changes;
  bool spins = false;
  for (Cta* c : g.ctas) spins |= wake_spinning(*c);
  if (spins) return true;
  if (g.pollers.empty() || ++g.quiet_rounds > kRounds) return false;
  for (const Poller& p : g.pollers) wake_thread(*p.cta, *p.thread);
  g.pollers.clear();
  return true;
}

/// The next of those who look first, or null.
Thread* next_woken(CtaGroup& g, Cta*& to) {
  while (!g.woken.empty()) {
    const auto [c, t] = g.woken.front();
    g.woken.pop_front();
    if (t->blocked != Blocked::no) continue;
    ++c->steps;
    to = current = c;
    return t;
  }
  return nullptr;
}

}  // namespace

void run_group(CtaGroup& g) {
  for (Cta* c : g.ctas) start_threads(*c);
  Cta* first = g.ctas.front();
  current = first;
  if (Thread* t = next_of_group(*first, first)) {
    current = first;
    first->running = t;
    switch_fiber(g.scheduler, t->fiber);  // comes back when the group has ended
  }
  for (Cta* c : g.ctas) c->running = nullptr;
}

Thread* next_of_group(Cta& from, Cta*& to) {
  CtaGroup& g = *from.together;
  from.running = nullptr;
  to = &from;
  if (from.stopped) g.stopped = true;
  while (!g.stopped) {
    if (Thread* next = next_woken(g, to)) return next;
    Cta* c = choose_cta(g, *to);
    if (!c && all_look_again(g)) continue;
    if (!c) {
      if (std::any_of(g.ctas.begin(), g.ctas.end(), [](const Cta* x) { return x->alive > 0; }))
        report_group_deadlock(g);
      return nullptr;
    }
    to = c;
    current = c;
    if (Thread* next = next_thread(*c)) return next;
    g.stopped = c->stopped;
  }
  return nullptr;
}

void poll(Cta& c, std::uintptr_t a, std::uint32_t bytes, Pc pc) {
  Thread& t = *c.running;
  Thread::Polled& p = t.polled;
  if (!c.together) return poll_alone(c, t, a, bytes, pc);
  maybe_yield(c);
  CtaGroup& g = *c.together;
  const bool again = p.pc == pc && p.address == a && same(p, a, bytes);
  p.tries = p.changes == g.changes ? p.tries + 1 : 0;
  p.changes = g.changes;
  if (again || p.tries > 1000) {  // 1000: polls several words in turn and nothing has been written
    if (again)
      g.pollers.push_back({&c, &t, a, a + bytes});
    else
      g.pollers.push_back({&c, &t, 0, ~std::uintptr_t(0)});
    block(c, Blocked::poll, 0, 0, pc);
    p.tries = 0;
  }
  p.pc = pc;
  p.address = a;
  std::memcpy(p.value, reinterpret_cast<const void*>(a), bytes);
}

void changed(Cta& c, std::uintptr_t a, std::uint64_t bytes) {
  if (!c.together) return wake(c, Blocked::poll, 0, 0, c.polling ? c.thread_count : 0);
  CtaGroup& g = *c.together;
  ++g.changes;
  std::erase_if(g.pollers, [&](const Poller& p) {
    if (p.lo >= a + bytes || p.hi <= a) return false;
    wake_thread(*p.cta, *p.thread);
    if (c.options->mode == Mode::deterministic) g.woken.emplace_back(p.cta, p.thread);
    return true;
  });
}

void updated(Cta& c, std::uintptr_t a, std::uint64_t bytes) {
  changed(c, a, bytes);
  if (c.together && !c.together->woken.empty()) yield(c);
}

}  // namespace moe::device::emulator
