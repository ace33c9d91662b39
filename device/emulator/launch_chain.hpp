// Which launches may still run when the next one begins? A dependent launch (griddepcontrol) may begin once
// every CTA of the one in front has allowed it; griddepcontrol.wait waits for that one to end, and so for
// everything in front of it that it has waited for in turn. What a kernel does earlier must touch nothing
// that running kernels write, and write nothing that they touch. It may read what is older, if the kernel in
// between has waited for that before it allowed the next one to begin.
#pragma once
#include <string>
#include <vector>

#include "device/emulator/independence.hpp"

namespace moe::device::emulator {

struct LaunchConflict {
  Conflict bytes;        // a: the launch in front, b: this one
  std::string in_front;  // its kernel
  bool direct = false;   // false: a kernel in between has not waited for it
};

/// How a launch has used griddepcontrol.
struct LaunchOrder {
  bool dependent = false;
  bool waited = false;           // some thread has executed griddepcontrol.wait: it ends after those in front
  bool next_after_wait = false;  // some CTA allows the next launch only behind its wait
};

class LaunchChain {
 public:
  void clear() { in_flight_.clear(); }
  /// The launch that has been run: all its accesses, and those in front of griddepcontrol.wait. Conflicts with
  /// launches that may have been running, at most `limit` of each.
  std::vector<LaunchConflict> add(std::string name, const LaunchOrder& order, AccessLog all,
                                  const AccessLog& early, std::size_t limit);

 private:
  struct InFlight {
    std::string name;
    AccessLog log;
    bool ends_with_wait = true;  // the wait of the next launch covers it
  };
  std::vector<InFlight> in_flight_;  // when the next launch begins; the one directly in front last
};

}  // namespace moe::device::emulator
