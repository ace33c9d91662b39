// What do the kernels take whose CTAs and launches talk to each other, and which faults are in them?
#pragma once
#include <cstdint>

namespace moe::test {

/// Two steps over slices of kSliceWords words, one a CTA, with a grid barrier before and after the second:
/// middle[c] = in[c] + 1; out[c] = 2 * middle[(c + 1) % ctas], by way of ordinary loads or of a bulk load;
/// then middle[c] = 7.
struct GridSyncParams {
  const std::uint32_t* in;
  std::uint32_t* middle;
  std::uint32_t* out;
  std::uint32_t* counters;  // 8 words, 0 before the launch
};
inline constexpr int kSliceWords = 96, kGridSyncThreads = 64, kGridSyncShared = 1024;

enum class GridFault {
  none,
  fenced_volatile,  // no fault: fence and relaxed red, polling by ld.volatile and fence
  by_copy,          // no fault: a bulk load reads what other CTAs stored, a bulk store writes
  flags,            // no fault: st.release of one word a CTA, each waits for its neighbour only
  missing_barrier,
  relaxed_arrival,
  volatile_without_fence,
  arrival_before_cta_sync,
  no_cta_sync_after_wait,
  goal_too_small,
  goal_too_large,
  overwrite_without_barrier,
  copy_without_proxy_fence,
  copy_behind_shared_fence,
  bulk_store_only_read,
  count
};

/// A chain of kernels on the same words: out[i] = in[i] + 1.
struct ChainParams {
  const std::uint32_t* in;
  std::uint32_t* out;
};
inline constexpr int kChainThreads = 64;

enum class ChainFault {
  none,
  one_thread_waits,   // no fault: thread 0 waits, a barrier passes it on
  waits_then_allows,  // no fault: the next launch may begin only behind the wait
  reads_before_wait,
  writes_before_wait,
  never_waits,
  other_warp_waits,
  count
};

using GridRun = void (*)(const void*);
GridRun grid_sync(GridFault fault);
GridRun chain_link(ChainFault fault);

}  // namespace moe::test
