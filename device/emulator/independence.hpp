// Do the CTAs of a launch get by without each other, and kernels without those in front of them? Each CTA
// logs the bytes of writable global memory that it reads, writes and updates atomically; afterwards overlaps
// of which one writes are findings: CTAs run in any order, and where a launch may begin early, so do kernels.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moe::device::emulator {

enum class Access : std::uint8_t { read, write, atomic, poll };  // poll: waits for another CTA's value

struct Interval {
  std::uintptr_t lo, hi;
  std::uint32_t pc;
};

class AccessLog {
 public:
  void record(Access kind, std::uintptr_t lo, std::size_t bytes, std::uint32_t pc) {
    Kind& k = kinds_[std::size_t(kind)];
    if (!k.intervals.empty()) {
      Interval& last = k.intervals.back();
      if (lo >= last.lo && lo <= last.hi) {
        if (lo + bytes > last.hi) last.hi = lo + bytes;
        return;
      }
    }
    k.intervals.push_back({lo, lo + bytes, pc});
    if (k.intervals.size() >= k.compact_at) compact(k);
  }
  void clear();
  void add(const AccessLog& other);
  const std::vector<Interval>& of(Access kind) const { return kinds_[std::size_t(kind)].intervals; }

 private:
  struct Kind {
    std::vector<Interval> intervals;
    std::size_t compact_at = 4096;
  };
  static void compact(Kind& k);
  std::array<Kind, 4> kinds_;
};

struct Conflict {
  std::uintptr_t byte;  // the first one
  unsigned cta_a, cta_b;
  Access kind_a, kind_b;
  std::uint32_t pc_a, pc_b;
};

/// The first conflicts by address, one of each pair of code places, at most `limit`. logs[i] belongs to CTA
/// i.
std::vector<Conflict> find_conflicts(const std::vector<AccessLog>& logs, std::size_t limit);

}  // namespace moe::device::emulator
