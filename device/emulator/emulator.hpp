// What would one Hopper SM do with this kernel, and does the kernel keep the rules? Runs CTAs of an
// instrumented kernel on the CPU: every CUDA thread is a fiber, asynchronous work completes at a moment that
// a seed chooses, and accesses are checked for happens-before, bounds and alignment. Same seed, same bytes,
// same reports, whatever `threads` is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/emulator/global_memory.hpp"
#include "device/emulator/trace.hpp"
#include "fixtures/problem/counts.hpp"
#include "fixtures/problem/mma_step.hpp"

namespace moe::device::emulator {

/// Which of the orders that the memory model allows is tried.
enum class Mode {
  deterministic,  // lowest thread runs until it blocks; copies land at once, wgmma runs when it is waited for
  random,         // any warp, any lane, any asynchronous step, with a chance to switch at each instruction
  pct,   // priorities with a few change points (probabilistic concurrency testing, Burckhardt et al. 2010)
  lazy,  // asynchronous work only when no thread can run
  eager  // asynchronous work at once, threads in any order
};

struct Options {
  std::uint64_t seed = 0;
  Mode mode = Mode::deterministic;
  bool check = true;     // happens-before and cross-CTA checks; bounds and alignment are always checked
  int threads = 1;       // host threads that run CTAs
  MmaStep arithmetic{};  // what a tensor-core instruction computes
  int preempt = 0;       // 1/preempt chance to switch at each instruction; 0: only where a thread blocks
  bool wgmma_in_pieces = false;  // operands read by 16 rows, accumulators written by warps, at many moments
  std::uint8_t poison = 0xFF;    // fills shared memory before a CTA starts
  bool descending = false;       // highest CTA first
  bool wavefronts = false;       // count those of shared memory
  bool trace = false;            // note where each CTA's boxes and stores lie
  int max_reports = 12;          // of one launch
  std::uint64_t max_switches = 400'000'000;  // of one CTA; more is called a livelock

  /// Mode, preemption chance, poison and how wgmmas run, all drawn from `seed`.
  static Options adversarial(std::uint64_t seed, const MmaStep& arithmetic);
};

/// One broken rule.
struct Report {
  std::string check;  // "race", "missing-proxy-fence", ... (README.md lists them)
  std::string where;  // file:line of the kernel, or a pc where it cannot be told
  std::string text;
  std::string sentence() const;  // "file:line: text [check]"
};

struct LaunchResult {
  std::vector<Report> reports;   // in CTA order; of the CTAs up to the first that could not finish
  std::vector<CtaTrace> traces;  // by CTA number; empty unless asked for
  Counts counts;                 // `tiles` stays 0: what a tile is, only the caller knows
  bool deadlock = false;
  bool finished = true;  // false: a CTA was stopped (wild access, deadlock, livelock)
  std::uint64_t switches = 0, accesses = 0;
  bool clean() const { return reports.empty() && finished; }
};

/// A kernel of an instrumented unit with its parameters: `run` is called once per CUDA thread.
struct Launch {
  void (*run)(const void* params) = nullptr;
  const void* params = nullptr;
  std::size_t params_bytes = 0;
  unsigned grid = 1, block = 32;  // one-dimensional; block is a multiple of 32 up to 1024
  std::size_t shared_bytes = 0;
  const char* name = "kernel";
  bool cooperative = false;  // all CTAs are on the card at once and may wait for each other
  bool dependent = false;    // may begin before the launches in front of it have ended
};

class Cta;

class Emulator {
 public:
  explicit Emulator(GlobalMemory& memory);
  ~Emulator();
  /// Throws BadInput for an illegal launch configuration; a wrong kernel is a report, never an exception.
  LaunchResult launch(const Launch& launch, const Options& options);
  /// All launches so far have ended: the next one cannot overlap them.
  void synchronize();

 private:
  struct Pool;
  GlobalMemory& memory_;
  std::unique_ptr<Pool> pool_;  // fiber stacks, shared windows and shadows, reused from launch to launch
};

}  // namespace moe::device::emulator
