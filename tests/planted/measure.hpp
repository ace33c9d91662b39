// How surely is each planted fault found on the emulated SM? One deterministic checked run, then seeds, for
// every line of kFaults.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "device/planted/fault_table.hpp"

namespace moe::device {

struct FaultRow {
  Fault fault = Fault::none;
  bool deterministic = false;  // found in the deterministic run, by the declared sentence where there is one
  std::string by;              // what the deterministic run says: check ids, "output"
  std::string sentence;        // its first sentence
  int seeds = 0, caught = 0;
  int caught_by_output = 0;            // seeds whose outputs or counts differ, whatever the checker says
  std::map<std::string, int> by_seed;  // check id, or "output" -> seeds
};

/// Does the row keep the promise? Every fault within the seeds; in the deterministic run too, unless it
/// changes which barrier generation is joined: that may take 50 seeds.
bool meets(const FaultRow& row);

/// Rows of `faults` in their order; those of the card alone have seeds = 0. `threads` host threads.
std::vector<FaultRow> measure(std::span<const Fault> faults, int seeds, int threads);

struct CleanRuns {
  std::int64_t schedules = 0, alarms = 0;
  std::vector<std::string> first;  // sentences of the first alarms
};
/// The right kernels on every trigger, `schedules` orders in all: sentences and outputs that differ are
/// alarms.
CleanRuns run_clean(std::int64_t schedules, int threads);

}  // namespace moe::device
