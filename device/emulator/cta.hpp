// What is the state of one CTA while it runs? Threads, shared memory with its shadow, mbarriers, copies in
// flight, warpgroups, barriers. One object per host thread, behind the one thread-local pointer `current`;
// internal to the emulator. Functions that work on it are declared beside what they do (engine.hpp).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device/emulator/emulator.hpp"
#include "device/emulator/fiber.hpp"
#include "device/emulator/global_order.hpp"
#include "device/emulator/independence.hpp"
#include "device/emulator/knowledge.hpp"
#include "device/emulator/shared_wavefronts.hpp"
#include "device/emulator/trace.hpp"
#include "device/hopper/tensor_map.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::device::emulator {

using Pc = std::uint32_t;  // code address minus the load bias of the program

inline constexpr int kMaxMbarriers = 64, kMaxWarps = 32, kMaxWarpgroups = 8, kReaderSlots = 4;
inline constexpr std::size_t kWindowBytes = std::size_t(1)
                                            << 20;       // shared memory lies inside, with room on both sides
inline constexpr std::uint64_t kSpinAccesses = 1 << 15;  // so many without progress are a spinning loop
inline constexpr std::uint32_t kGranule = 16;            // bytes of shared memory that share a shadow entry

struct Random {
  std::uint64_t state = 0;
  std::uint64_t next() {  // SplitMix64
    std::uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return std::uint32_t(((next() >> 32) * n) >> 32); }
  int bit(std::uint32_t mask) {  // one that is set
    for (std::uint32_t n = below(std::uint32_t(__builtin_popcount(mask))); n; --n) mask &= mask - 1;
    return __builtin_ctz(mask);
  }
};

/// A report whose code addresses are still numbers between \1 and \2.
struct RawReport {
  const char* check;
  Pc pc;
  std::string text;
};

// ---- shadow of shared memory
struct Granule {
  std::uint32_t tma_phase, tma_pc;  // last asynchronous write: phase of its mbarrier, where it was issued
  std::uint32_t wgmma[kReaderSlots], wgmma_pc;  // last wgmma of each warpgroup slot that reads it
  std::uint32_t bulk_readers;                   // list of bulk stores that may read it, 0 = none
  std::uint16_t initialised;                    // a bit a byte
  std::uint8_t tma_bar, in_flight;              // mbarrier number + 1; bytes not landed yet
  std::uint16_t mbarrier_bytes;                 // a bit a byte of an mbarrier object
  std::uint8_t cells_used;
  hopper::Swizzle swizzle;  // of the last asynchronous write; none: not known
};
struct Cell {  // a word of shared memory or bytes of one with the same past; ordinary accesses
  Clock write_clock, read_clock;
  Pc write_pc, read_pc;
  std::uint32_t readers;      // number of a read set, 0 = only `reader`
  std::uint32_t next : 28;    // number of a cell of other bytes of the word, 0 = none
  std::uint32_t missing : 4;  // a bit a byte of the word that belongs to other cells
  std::uint16_t writer, reader;
};
struct BulkReader {  // of a list
  std::uint32_t store = 0, next = 0;
};
/// Who may still read a granule: a warpgroup slot with its wgmma's number, or a bulk store.
struct AsyncReader {
  int slot = -1;
  std::uint32_t wgmma = 0, bulk_store = 0;
};

// ---- threads and what they wait for
enum class Blocked : std::uint8_t { no, mbarrier, named_barrier, warp, wgmma, mma, bulk, poll, spin, done };

struct Accumulators {  // a d[R] of a thread's wgmmas, on its stack
  std::uintptr_t lo, hi;
  std::uint32_t last_issue = 0;
  std::uint32_t named = 0;  // the last issue that a wait or fence which names these registers has seen
  Pc touched = 0;           // access since the last fence, 0 = none
  Pc issued = 0;            // wgmma since the last fence, 0 = none
  bool fenced = false;
};

struct Thread {
  Fiber fiber;
  int id = 0, warp = 0, lane = 0, group = 0;  // group: warpgroup
  Blocked blocked = Blocked::no;
  bool may_fail = false;  // its wait is a try_wait: it may also end without what it waits for
  struct Tried {  // the phase that a try_wait has failed to see although it was complete, and how often
    std::uint32_t phase = 0, times = 0;
  };
  std::vector<Tried> tried;                // by mbarrier
  std::uint32_t object = 0, argument = 0;  // what it is blocked on
  Pc pc = 0;
  struct Place {  // as the kernel says
    int expert = -1, row = 0, panel = 0, k_block = -1, stage = 0;
  };
  Place place;
  std::uintptr_t stack_bottom = 0;
  Knowledge knows;
  std::vector<Accumulators> accumulators;
  std::uintptr_t accumulators_lo = ~std::uintptr_t(0), accumulators_hi = 0;  // all of them lie inside
  std::uint32_t issued = 0, waited = 0;                                      // wgmmas
  struct Known {  // names the knowledge that its last wgmma was issued with
    std::uint64_t base = 0;
    Clock own = 0, fenced_own = 0;
    bool operator==(const Known&) const = default;
  };
  Known known_at_issue;
  Pc last_wgmma = 0;
  std::vector<std::uint32_t> wgmma_groups, bulk_stores, bulk_groups;
  std::uint32_t bulk_read = 0;  // so many of bulk_stores have been seen to have read
  std::uint32_t converged = 0;  // warp-wide instructions executed since the warp last waited
  std::uint32_t mma_issued = 0;
  std::uintptr_t mma_lo = ~std::uintptr_t(0),
                 mma_hi = 0;          // holds the accumulators of mma.sync that may still run
  Others fenced_release, to_acquire;  // fence.acq_rel: what a relaxed red releases, what a fence will acquire
  struct Polled {                     // its last polling load
    Pc pc = 0;
    std::uintptr_t address = 0;
    std::uint64_t changes = 0;
    std::uint32_t tries = 0;
    std::uint8_t value[16] = {};
  };
  Polled polled;
  std::vector<std::uintptr_t> looked_at;  // words that it has acquired, in the plain order
  struct Window {  // of its last accesses: does it do anything but look at the same few bytes?
    std::uintptr_t lo = ~std::uintptr_t(0), hi = 0;  // memory that it has read
    bool progress = false;                           // it has written, waited or arrived
  };
  Window window;
  std::uint64_t accesses = 0, next_look = kSpinAccesses;
};

// ---- asynchronous engines
struct Mbarrier {
  std::uint32_t offset = 0, count = 0, phase = 0;
  int pending = 0;  // arrivals that the phase still lacks
  std::int64_t bytes_due = 0, expected = 0, issued = 0;
  int copies_in_flight = 0;
  std::uint32_t copy_phase = 0, seen_phase = 0;  // last one that a copy signals; last one that a thread saw
  Pc last_copy_pc = 0, init_pc = 0;
  int init_thread = 0;
  Clock init_clock = 0;
  Clock fenced = 0;  // of the initialising thread at its fence.mbarrier_init; 0: none yet
  struct Arrival {
    int thread = -1;
    Clock clock = 0;
  };
  Arrival arrival,
      completed_by;  // the last one; the last of the completed phase, no thread where it had bytes
  Gathering released;
  SnapshotRef acquired;
};
struct Copy {  // TMA box or bulk load in flight
  bool tensor = false;
  hopper::EmulatedTensorMap map{};
  const std::uint8_t* source = nullptr;
  int x = 0, y = 0, bar = 0;
  std::uint32_t target = 0, rows = 0, row_bytes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pieces;  // rows that have not landed
};
struct BulkStore {
  Pc pc = 0;
  int thread = 0;
  std::uint32_t source = 0, bytes = 0;
  std::uint8_t* target = nullptr;
  bool read = false, done = false;       // has read shared memory, has written global memory
  Clock waited = 0;                      // the thread's clock when a wait saw that it has read
  Clock written_known = 0;               // and when one saw that it has written
  std::unique_ptr<std::uint8_t[]> held;  // between the two
};
struct WgmmaOperands {  // of an instruction that is read piece by piece
  alignas(64) std::uint8_t a[64 * 32], b[256 * 32];
  std::uint32_t unread = 0;  // bit i: rows 16 i .. 16 i + 15 of A; bit 4 + i: of B
};
struct WgmmaOp {
  std::uint64_t desc_a = 0, desc_b = 0;
  int n = 0, arrived = 0;
  bool scale_d = false;
  Pc pc = 0;
  std::array<float*, 128> d{};
  std::unique_ptr<WgmmaOperands> operands;  // null: no piece was read
  /// What threads have learnt since their last wgmma, by warps; null: none of them has learnt anything.
  std::unique_ptr<std::array<Gathering, 4>> learnt;
};
struct Warpgroup {
  std::vector<WgmmaOp> ops;  // ops[i] has number first + i + 1
  std::uint32_t first = 0, formed = 0, done = 0;
  int slot = -1;
  std::unique_ptr<float[]> result;    // [64][n] of op(done + 1)
  std::uint32_t unwritten_warps = 0;  // whose accumulators do not hold it yet; 0: it is not computed
  std::array<SnapshotRef, 4> known;   // by each warp when it issued op(formed); null: nothing
  std::vector<Clock> seen_by_all, fenced_by_all;
  struct RegisterChange {  // one setmaxnreg of the group
    int registers = 0;
    bool increase = false;
    Pc pc = 0;
    std::array<std::pair<int, Clock>, 4> by{};  // a thread of each warp and its clock; 0: not yet
  };
  std::vector<RegisterChange> register_changes;
  std::array<std::size_t, 4> registers_changed{};  // so many by each warp
  WgmmaOp& op(std::uint32_t number) { return ops[number - first - 1]; }
};
struct WgmmaSlabs {  // operands of one instruction: too large for a fiber's stack
  alignas(64) std::uint8_t a[64 * 32], b[256 * 32];
  alignas(64) float d[64 * 256];
  float discarded[128];  // accumulators whose thread has touched them or left
};
struct NamedBarrier {
  int arrived = 0, count = 0;
  bool all = false;  // cta_sync: of all threads that have not exited
  std::uint32_t generation = 0;
  Pc pc = 0;
  struct Lanes {  // of a warp that have arrived
    std::uint32_t mask = 0;
    Pc pc = 0;
  };
  std::array<Lanes, kMaxWarps> lanes{};
  int last_thread =
      -1;  // of the last round, and its clock and place: who knows it knows that the round is over
  Clock last_clock = 0;
  Pc last_pc = 0;
  Gathering gathering;
};
enum class WarpPoint : std::uint8_t {
  none,
  sync,
  elect,
  setmaxnreg_inc,
  setmaxnreg_dec,
  shuffle,
  ballot,
  mma,
  fence,
  commit,
  wait
};
struct WarpState {
  std::uint32_t alive = ~0u;  // lanes that have not exited
  int arrived = 0;
  WarpPoint point = WarpPoint::none;
  std::uint32_t generation = 0, argument = 0;
  Pc pc = 0;
  Gathering gathering;
  SnapshotRef released;
  std::array<std::uint32_t, 32> in{}, out{};
  std::array<int, 32> source{};
  struct Fragment {
    float* d;
    std::uint32_t a[4], b[2];
  };
  struct Mma {  // runs when the last lane has issued it
    int arrived = 0;
    std::array<Fragment, 32> lanes;
  };
  std::vector<Mma> mma_queue;  // [i] has number mma_first + i
  std::uint32_t mma_first = 0, mma_done = 0;
  struct Passed {
    WarpPoint point;
    Pc pc;
  };
  std::vector<Passed> passed;  // warp-wide instructions that do not wait, since the warp last waited
};

struct CachedRegion {
  std::uintptr_t lo = 0, hi = 0;
  const Region* region = nullptr;
  bool logged = false;   // accesses go to the cross-CTA log
  bool ordered = false;  // and are judged by happens-before
};

struct CtaCounts {
  std::int64_t ctas = 0, mma = 0, load_bytes = 0, store_bytes = 0, loads = 0, wavefronts = 0, conflicts = 0;
  std::array<std::int64_t, 33> wgmma{};  // by N / 8
};

struct CtaGroup;

class Cta {
 public:
  Cta() = default;
  ~Cta();
  Cta(const Cta&) = delete;
  Cta& operator=(const Cta&) = delete;

  // the launch
  const Launch* launch = nullptr;
  const Options* options = nullptr;
  const GlobalMemory* memory = nullptr;
  bool check = false, log_accesses = false;  // log: for the check across CTAs
  int preempt = 0;
  unsigned index = 0;            // CTA number
  CtaGroup* together = nullptr;  // the CTAs that this one may talk to, null where it may not
  std::uint16_t slot = 0;        // in that group
  // what happened
  std::vector<RawReport> reports;
  bool stopped = false, deadlock = false;
  std::uint64_t switches = 0, accesses = 0, steps = 0;
  CtaCounts counts;
  AccessLog log, early;          // early: by threads that may be in front of griddepcontrol.wait
  bool waited_for_grid = false;  // some thread has executed it
  bool allowed_next = false,
       allowed_early = false;   // griddepcontrol.launch_dependents; by a thread in front of it
  CtaTrace trace;               // filled where options->trace
  SharedWavefronts wavefronts;  // where options->wavefronts
  // scheduling
  Random random;
  Fiber scheduler;
  Thread* running = nullptr;
  int thread_count = 0, alive = 0;
  std::vector<Thread> threads;
  std::array<std::uint32_t, kMaxWarps> runnable{};  // lanes
  std::uint32_t runnable_warps = 0;
  std::array<std::uint32_t, kMaxWarps + 3> priority{};
  std::uint64_t next_change = 0;
  int elected = 0;
  int polling = 0;       // threads that wait for another value of a word, in a CTA without others
  int spin_rounds = 0;   // in which only spinning threads could go on
  int failed_waits = 0;  // rounds in which only a failing try_wait let anybody go on, since a phase completed
  // memory
  std::uint8_t* window = nullptr;
  std::uint8_t* shared = nullptr;  // base of dynamic shared memory, inside the window
  std::uint32_t shared_bytes = 0;
  CachedRegion cached;  // of the last global access
  std::vector<Granule> granules;
  std::vector<Cell> cells;
  std::vector<std::vector<Clock>> read_sets;
  std::vector<std::uint32_t> free_read_sets;
  std::deque<Cell> split_cells;  // of words whose bytes are accessed apart; number 0 is none
  std::vector<std::uint32_t> free_split_cells;
  std::vector<BulkReader> bulk_readers;  // lists that granules share
  GlobalOrder order;                     // of this CTA alone; a group has its own
  SnapshotPool snapshots;
  SnapshotRef after_grid_wait;
  // engines
  std::vector<Mbarrier> mbarriers;
  std::vector<Copy> copies;
  std::vector<BulkStore> bulk_stores;
  std::vector<std::uint32_t> bulk_queue;
  std::vector<Warpgroup> groups;
  int reader_slots = 0;
  std::array<NamedBarrier, 16> barriers;
  std::vector<WarpState> warps;
  StackPool stacks;
  WgmmaSlabs slabs;

  int mbarrier_component(int bar) const { return thread_count + bar; }
  int group_component(int group) const { return thread_count + kMaxMbarriers + group; }
  int grid_component() const { return thread_count + kMaxMbarriers + kMaxWarpgroups; }  // griddepcontrol.wait
  bool lands_at_once() const { return options->mode == Mode::deterministic || options->mode == Mode::eager; }
};

/// The CTA whose fibers run on this host thread; null outside of a launch.
extern thread_local constinit Cta* current;

}  // namespace moe::device::emulator
