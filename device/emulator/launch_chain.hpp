// Which launches may still run when the next one begins? A dependent launch (griddepcontrol) may begin before
// the one in front of it has ended; griddepcontrol.wait waits for that one, and so for everything in front of
// it that it has waited for in turn. What a kernel does earlier must touch nothing that those kernels write,
// and write nothing that they touch.
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

class LaunchChain {
 public:
  void clear() { in_flight_.clear(); }
  /// The launch that has been run: all its accesses, those in front of griddepcontrol.wait, whether any
  /// thread executed that. Conflicts with launches that may have been running, at most `limit` of each.
  std::vector<LaunchConflict> add(std::string name, bool dependent, AccessLog all, const AccessLog& early,
                                  bool waited, std::size_t limit);

 private:
  struct InFlight {
    std::string name;
    AccessLog log;
  };
  std::vector<InFlight>
      in_flight_;  // the last launch, and what was in front of it that it has not waited for
};

}  // namespace moe::device::emulator
