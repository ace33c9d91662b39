#include "device/emulator/independence.hpp"

#include <algorithm>
#include <tuple>

namespace moe::device::emulator {
namespace {

struct Entry {
  Interval bytes;
  unsigned cta;
  Access kind;
};

/// Sorted by address, touching and overlapping intervals merged; the first one's pc stays.
void merge(std::vector<Interval>& intervals) {
  if (intervals.empty()) return;
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return std::tie(a.lo, a.hi, a.pc) < std::tie(b.lo, b.hi, b.pc);
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].lo <= intervals[kept].hi)
      intervals[kept].hi = std::max(intervals[kept].hi, intervals[i].hi);
    else
      intervals[++kept] = intervals[i];
  }
  intervals.resize(kept + 1);
}

/// The two intervals of different CTAs that reach furthest, among those already swept.
struct Furthest {
  const Entry* best = nullptr;
  const Entry* other = nullptr;  // of another CTA than `best`
  void add(const Entry* e) {
    if (!best || e->bytes.hi > best->bytes.hi) {
      if (best && best->cta != e->cta) other = best;
      best = e;
    } else if (e->cta != best->cta && (!other || e->bytes.hi > other->bytes.hi)) {
      other = e;
    }
  }
  const Entry* overlapping(const Entry& e) const {
    for (const Entry* c : {best, other})
      if (c && c->cta != e.cta && c->bytes.hi > e.bytes.lo) return c;
    return nullptr;
  }
};

bool conflicting(Access a, Access b) {
  if (a == Access::write || b == Access::write) return true;
  return (a == Access::atomic) != (b == Access::atomic);  // a read against an atomic update
}

}  // namespace

void AccessLog::compact(Kind& k) {
  merge(k.intervals);
  k.compact_at = std::max<std::size_t>(4096, 2 * k.intervals.size());
}

void AccessLog::add(const AccessLog& other) {
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    Kind& mine = kinds_[kind];
    const std::vector<Interval>& more = other.kinds_[kind].intervals;
    mine.intervals.insert(mine.intervals.end(), more.begin(), more.end());
    if (mine.intervals.size() >= mine.compact_at) compact(mine);
  }
}

void AccessLog::clear() {
  for (Kind& k : kinds_) k = Kind{};
}

std::vector<Conflict> find_conflicts(const std::vector<AccessLog>& logs, std::size_t limit) {
  std::vector<Interval> changed;  // reads of bytes that nobody changes cannot conflict
  for (const AccessLog& log : logs)
    for (Access kind : {Access::write, Access::atomic})
      changed.insert(changed.end(), log.of(kind).begin(), log.of(kind).end());
  merge(changed);
  if (changed.empty()) return {};

  std::vector<Entry> entries;
  for (unsigned cta = 0; cta < logs.size(); ++cta)
    for (Access kind : {Access::read, Access::write, Access::atomic, Access::poll})
      for (const Interval& i : logs[cta].of(kind)) {
        if (kind == Access::read || kind == Access::poll) {
          const auto at = std::upper_bound(changed.begin(), changed.end(), i.lo,
                                           [](std::uintptr_t a, const Interval& c) { return a < c.hi; });
          if (at == changed.end() || at->lo >= i.hi) continue;
        }
        entries.push_back({i, cta, kind});
      }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.bytes.lo, a.cta, a.kind, a.bytes.hi) < std::tie(b.bytes.lo, b.cta, b.kind, b.bytes.hi);
  });

  std::vector<Conflict> conflicts;
  const auto add = [&](const Entry& a, const Entry& b) {
    for (const Conflict& c : conflicts)  // one of each pair of code places
      if (std::minmax(c.pc_a, c.pc_b) == std::minmax(a.bytes.pc, b.bytes.pc)) return;
    conflicts.push_back({b.bytes.lo, a.cta, b.cta, a.kind, b.kind, a.bytes.pc, b.bytes.pc});
  };
  std::array<Furthest, 4> swept;
  for (const Entry& e : entries) {
    for (int kind = 0; kind < 4; ++kind) {
      if (!conflicting(Access(kind), e.kind)) continue;
      if (const Entry* o = swept[std::size_t(kind)].overlapping(e)) add(*o, e);
      if (conflicts.size() >= limit) return conflicts;
    }
    swept[std::size_t(e.kind)].add(&e);
  }
  return conflicts;
}

}  // namespace moe::device::emulator
