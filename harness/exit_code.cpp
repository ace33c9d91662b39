#include "harness/exit_code.hpp"

#include <algorithm>

namespace moe::harness {
namespace {

bool is_bad(Correctness verdict, bool allow_mistrusted) {
  switch (verdict) {
    case Correctness::failed:
    case Correctness::crashed:
    case Correctness::timed_out:
      return true;
    case Correctness::mistrusted:
      return !allow_mistrusted;
    default:
      return false;
  }
}

bool did_run(Correctness verdict) {
  return verdict != Correctness::refused && verdict != Correctness::skipped;
}

}  // namespace

ExitCode exit_code(const std::vector<Correctness>& verdicts, bool allow_mistrusted, bool require_gpu,
                   bool out_of_time) {
  const auto bad = [&](Correctness v) { return is_bad(v, allow_mistrusted); };
  if (std::any_of(verdicts.begin(), verdicts.end(), bad)) return ExitCode::failed;
  if (out_of_time) return ExitCode::time_budget;
  if (std::any_of(verdicts.begin(), verdicts.end(), did_run)) return ExitCode::passed;
  return require_gpu ? ExitCode::infrastructure : ExitCode::nothing_ran;
}

}  // namespace moe::harness
