// Which faults are template arguments? Those between a wgmma's fence and its wait: a branch there would make
// ptxas serialise the wgmma of the right path too.
#pragma once
#include "device/planted/faults.hpp"

namespace moe::device {

inline constexpr Fault kWgmmaFaults[] = {
    Fault::wgmma_not_fenced,
    Fault::wgmma_not_committed,
    Fault::wgmma_not_awaited,
    Fault::wgmma_left_in_flight,
    Fault::wgmma_skipped_by_a_warp,
    Fault::accumulator_touched_in_flight,
    Fault::stage_given_back_in_flight,
    Fault::descriptor_a_row_off,
    Fault::descriptor_of_other_swizzle,
    Fault::stage_rewritten_without_proxy_fence,
    Fault::partial_sums_not_promoted,
};
inline constexpr int kWgmmaFaultCount = int(sizeof(kWgmmaFaults) / sizeof(kWgmmaFaults[0]));

constexpr bool is_wgmma_fault(Fault fault) {
  for (Fault f : kWgmmaFaults)
    if (f == fault) return true;
  return false;
}

}  // namespace moe::device
