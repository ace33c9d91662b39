// What does the program's exit status say? One code for each thing a script must tell apart.
#pragma once
#include <vector>

#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

enum class ExitCode {
  passed = 0,          // all verdicts passed (refused or skipped ones beside a passed one included)
  failed = 1,          // a verdict failed, crashed, timed out or is mistrusted; or --fail-on was hit
  usage = 2,           // bad options or unreadable input
  infrastructure = 3,  // CUDA error, lost device, full disk, report that cannot be written
  time_budget = 4,     // the time budget ended before all cases ran
  nothing_ran =
      77,  // this machine lacks what every case needs (the code that ctest and Automake read as skipped)
};

/// The code of a finished run. `allow_mistrusted` lifts mistrusted to passed; `require_gpu` makes nothing_ran
/// an error.
ExitCode exit_code(const std::vector<Correctness>& verdicts, bool allow_mistrusted, bool require_gpu,
                   bool out_of_time);

}  // namespace moe::harness
