// How do CTAs run that talk to each other through global memory? All CTAs of the launch are one group: their
// fibers take turns on one host thread in an order that the seed chooses, a thread that polls a word sleeps
// until somebody writes it, and a group in which nobody can go on is a deadlock.
#pragma once
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "device/emulator/cta.hpp"
#include "device/emulator/global_order.hpp"

namespace moe::device::emulator {

struct Poller {
  Cta* cta;
  Thread* thread;
  std::uintptr_t lo, hi;  // [0, ~0): any write wakes it
};

struct CtaGroup {
  std::vector<Cta*> ctas;  // by Cta::slot
  Fiber scheduler;
  Random random;
  bool stopped = false;  // a CTA could not go on
  std::vector<std::uint32_t> priority;
  std::uint64_t steps = 0, next_change = 0;
  GlobalOrder order;
  std::vector<Poller> pollers;
  std::deque<std::pair<Cta*, Thread*>> woken;  // plain order: they look before anybody else goes on
  std::uint64_t changes = 0;                   // writes of global memory so far
  std::uint64_t quiet_since = 0;
  int quiet_rounds = 0;
};

/// Runs all CTAs of the group to their end, or until one of them cannot finish.
void run_group(CtaGroup& group);
/// The thread that runs next and, in `to`, its CTA; null when the group has ended.
Thread* next_of_group(Cta& from, Cta*& to);
/// Before the running thread's polling load of `bytes` bytes at `a`: sleeps where the last one saw the same.
void poll(Cta& c, std::uintptr_t a, std::uint32_t bytes, Pc pc);
/// A word has been updated by an instruction that others may race with. In the plain order those who poll it
/// look at once, so that each learns no more than the first value that lets it go on.
void updated(Cta& c, std::uintptr_t a, std::uint64_t bytes);
/// Global memory changes (or will, before any other thread runs): pollers of it look again.
void changed(Cta& c, std::uintptr_t a, std::uint64_t bytes);

}  // namespace moe::device::emulator
