// Launches: resets a CTA object per CTA, runs CTAs on several host threads, merges results in CTA order.
#include "device/emulator/emulator.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <thread>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"
#include "device/emulator/launch_chain.hpp"
#include "device/emulator/symbolise.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::device::emulator {

struct Emulator::Pool {
  std::vector<std::unique_ptr<Cta>> ctas;  // one per host thread
  Symboliser symboliser{load_bias};
  LaunchChain chain;
};

namespace {

struct CtaResult {
  std::vector<RawReport> reports;
  CtaCounts counts;
  std::uint64_t switches = 0, accesses = 0;
  bool stopped = false, deadlock = false;
};

/// What may fail for want of memory is done before host threads start.
void map_memory(Cta& c, const Launch& launch) {
  c.stacks.grow(int(launch.block));
  if (c.window) return;
  void* p = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw MachineFailure("emulated SM: no memory for the shared window");
  c.window = static_cast<std::uint8_t*>(p);
  c.shared = c.window + kWindowBytes / 4;  // page-aligned, and far from both ends
}

/// Everything of the last CTA is gone before the snapshots are.
void drop_state(Cta& c) {
  c.threads.clear();
  c.mbarriers.clear();
  c.copies.clear();
  c.bulk_stores.clear();
  c.bulk_queue.clear();
  c.groups.clear();
  c.warps.clear();
  c.after_grid_wait = SnapshotRef();
  c.order.clear();
  for (NamedBarrier& b : c.barriers) {
    b.gathering.clear();
    b.arrived = b.count = 0;
    b.all = false;
    b.generation = 0;
    b.lanes.fill({});
    b.last_thread = -1;
  }
}

void reset(Cta& c, const Launch& launch, const Options& options, unsigned index) {
  drop_state(c);
  c.launch = &launch;
  c.options = &options;
  c.check = options.check;
  c.log_accesses = options.check;
  c.preempt = options.preempt;
  c.index = index;
  c.reports.clear();
  c.stopped = c.deadlock = false;
  c.failed_waits = c.spin_rounds = c.polling = 0;
  c.switches = c.accesses = c.steps = 0;
  c.counts = CtaCounts{};
  c.counts.ctas = 1;
  c.log.clear();
  c.early.clear();
  c.waited_for_grid = c.allowed_next = c.allowed_early = false;
  c.trace = {};
  if (options.wavefronts) c.wavefronts.reset(int(launch.block) / 32);
  c.cached = CachedRegion{};
  c.thread_count = int(launch.block);
  if (c.check) {
    c.snapshots.reset(c.grid_component() + 1);
    SnapshotRef waited = c.snapshots.zero();
    waited->seen[c.grid_component()] = 1;
    c.after_grid_wait = std::move(waited);
  }
  reset_shared(c);
  c.groups.resize(std::size_t((c.thread_count + 127) / 128));
  c.warps.resize(std::size_t(c.thread_count / 32));
  c.reader_slots = 0;
  c.random.state = (options.seed + 1) * 0x9E3779B97F4A7C15ull + index * 0xD1B54A32D192ED03ull;
  // which lane is elected is the machine's choice, and not lane 0 here, on which nobody may rely
  c.elected = options.mode == Mode::deterministic ? 1 : int(c.random.below(32));
  for (std::uint32_t& p : c.priority) p = 1 + c.random.below(1000);
  c.next_change = 1 + c.random.below(2000);
}

void check_launch(const Launch& l) {
  const auto bad = [](const std::string& what) { throw BadInput("emulated launch: " + what); };
  if (!l.run) bad("no kernel");
  if (l.grid == 0) bad("a grid of 0 CTAs");
  if (l.block == 0 || l.block % 32 || l.block > unsigned(sm90::kMaxThreadsPerCta))
    bad("a block of " + std::to_string(l.block) + " threads; a multiple of 32 up to 1024 is legal");
}

/// CTAs in order, shared by the host threads; none is begun behind one that could not finish.
class Queue {
 public:
  Queue(unsigned grid, bool descending) : grid_(grid), descending_(descending), failed_(grid) {}
  bool take(unsigned& cta) {
    const unsigned i = next_.fetch_add(1);
    if (i >= grid_ || i > failed_.load()) return false;
    cta = descending_ ? grid_ - 1 - i : i;
    return true;
  }
  void fail(unsigned cta) {
    const unsigned i = descending_ ? grid_ - 1 - cta : cta;
    unsigned seen = failed_.load();
    while (i < seen && !failed_.compare_exchange_weak(seen, i)) {
    }
  }
  unsigned first_failed() const { return failed_.load(); }

 private:
  unsigned grid_;
  bool descending_;
  std::atomic<unsigned> next_{0}, failed_;
};

/// What the CTAs of a launch leave behind, by CTA number.
struct Finished {
  std::vector<CtaResult> results;
  std::vector<AccessLog> logs, early;
  std::vector<CtaTrace> traces;
  LaunchOrder order;
  unsigned first_failed;  // of the launch's order; the grid's size: none
  std::mutex lock;

  Finished(const Launch& launch, const Options& options)
      : results(launch.grid),
        logs(launch.grid),
        early(launch.grid),
        traces(options.trace ? launch.grid : 0),
        first_failed(launch.grid) {}
  void take(Cta& c) {
    if (c.options->wavefronts) {
      c.wavefronts.finish();
      c.counts.wavefronts = c.wavefronts.wavefronts();
      c.counts.conflicts = c.wavefronts.conflicts();
    }
    results[c.index] = {std::move(c.reports), c.counts, c.switches, c.accesses, c.stopped, c.deadlock};
    logs[c.index] = std::move(c.log);
    early[c.index] = std::move(c.early);
    if (!traces.empty()) traces[c.index] = std::move(c.trace);
    const std::lock_guard guard(lock);
    order.waited |= c.waited_for_grid;
    order.next_after_wait |= c.allowed_next ? !c.allowed_early : c.waited_for_grid;
  }
};

void merge(LaunchResult& all, std::vector<RawReport>& reports, CtaResult& one, std::size_t limit) {
  for (RawReport& r : one.reports) {
    const bool known = std::any_of(reports.begin(), reports.end(), [&](const RawReport& o) {
      return o.pc == r.pc && std::string_view(o.check) == r.check;
    });
    if (!known && reports.size() < limit) reports.push_back(std::move(r));
  }
  all.counts.ctas += one.counts.ctas;
  all.counts.mma += one.counts.mma;
  all.counts.tma_load_bytes += one.counts.load_bytes;
  all.counts.tma_store_bytes += one.counts.store_bytes;
  all.counts.tma_loads += one.counts.loads;
  all.counts.shared_wavefronts += one.counts.wavefronts;
  all.counts.bank_conflicts += one.counts.conflicts;
  for (std::size_t i = 0; i < one.counts.wgmma.size(); ++i)
    if (one.counts.wgmma[i]) all.counts.wgmma[int(i) * 8] += one.counts.wgmma[i];
  all.switches += one.switches;
  all.accesses += one.accesses;
  all.deadlock |= one.deadlock;
  all.finished &= !one.stopped;
}

const char* did(Access a) {
  static constexpr const char* kNames[] = {"reads", "writes", "updates atomically", "polls"};
  return kNames[std::size_t(a)];
}

void report_conflicts(std::vector<RawReport>& reports, const std::vector<AccessLog>& logs,
                      const GlobalMemory& memory, std::size_t limit) {
  for (const Conflict& k : find_conflicts(logs, 3)) {
    if (reports.size() >= limit) return;
    const Region* r = memory.find(k.byte);
    reports.push_back(
        {"cta-race", k.pc_b,
         say("CTA ", k.cta_b, " ", did(k.kind_b), " byte ", std::uint64_t(r ? k.byte - r->lo : 0), " of '",
             r ? std::string_view(r->name) : "?", "', which CTA ", k.cta_a, " ", did(k.kind_a), " at ",
             At{k.pc_a}, "; nothing orders CTAs of a launch that is not cooperative")});
  }
}

/// A kernel that may begin early, and what it does before it has waited.
void report_early(std::vector<RawReport>& reports, Finished& done, LaunchChain& chain, const Launch& launch,
                  const GlobalMemory& memory, std::size_t limit) {
  AccessLog log, early;
  for (const AccessLog& one : done.logs) log.add(one);
  for (const AccessLog& one : done.early) early.add(one);
  done.order.dependent = launch.dependent;
  for (const LaunchConflict& k : chain.add(launch.name, done.order, std::move(log), early, 3)) {
    if (reports.size() >= limit) return;
    const Region* r = memory.find(k.bytes.byte);
    reports.push_back(
        {"dependent-launch", k.bytes.pc_b,
         say(did(k.bytes.kind_b), " byte ", std::uint64_t(r ? k.bytes.byte - r->lo : 0), " of '",
             r ? std::string_view(r->name) : "?", "', which ", k.in_front, ", a kernel in front, ",
             did(k.bytes.kind_a), " at ", At{k.bytes.pc_a},
             k.direct
                 ? "; no griddepcontrol.wait is ordered before, so that kernel may still run"
                 : "; the kernel in between does not wait for it (griddepcontrol.wait) before this one may "
                   "begin")});
  }
}

/// CTAs that do without each other: on several host threads, in order.
void run_apart(std::span<std::unique_ptr<Cta>> ctas, const GlobalMemory& memory, const Launch& launch,
               const Options& options, Finished& done) {
  Queue queue(launch.grid, options.descending);
  const auto work = [&](Cta& c) {
    current = &c;
    c.memory = &memory;
    c.together = nullptr;
    c.slot = 0;
    for (unsigned i; queue.take(i);) {
      reset(c, launch, options, i);
      run_cta(c);
      if (c.stopped) queue.fail(i);
      done.take(c);
    }
    drop_state(c);
    current = nullptr;
  };
  std::vector<std::thread> others;
  for (std::size_t w = 1; w < ctas.size(); ++w) others.emplace_back(work, std::ref(*ctas[w]));
  work(*ctas[0]);
  for (std::thread& t : others) t.join();
  done.first_failed = queue.first_failed();
}

/// CTAs that talk to each other: one group on this thread.
void run_together(std::span<std::unique_ptr<Cta>> ctas, const GlobalMemory& memory, const Launch& launch,
                  const Options& options, Finished& done) {
  CtaGroup group;
  group.random.state = (options.seed + 1) * 0x2545F4914F6CDD1Dull;
  for (unsigned i = 0; i < launch.grid; ++i) {
    Cta& c = *ctas[i];
    c.memory = &memory;
    c.together = &group;
    c.slot = std::uint16_t(i);
    reset(c, launch, options, options.descending ? launch.grid - 1 - i : i);
    group.ctas.push_back(&c);
    group.priority.push_back(1 + group.random.below(1000));
  }
  run_group(group);
  current = nullptr;
  for (Cta* c : group.ctas)
    if (c->stopped) done.first_failed = launch.grid - 1;  // of all of them, whoever it was
  for (Cta* c : group.ctas) {
    c->stopped |= group.stopped;
    done.take(*c);
  }
  for (Cta* c : group.ctas) drop_state(*c);  // their clocks refer to each other
  for (Cta* c : group.ctas) c->snapshots.forget_joins();
}

}  // namespace

Options Options::adversarial(std::uint64_t seed, const MmaStep& arithmetic) {
  static constexpr Mode kModes[] = {Mode::random, Mode::pct, Mode::lazy, Mode::eager, Mode::pct};
  Options o;
  o.seed = seed;
  o.arithmetic = arithmetic;
  o.mode = kModes[seed % 5];
  o.preempt = seed % 5 == 4 ? 0 : 2 + int(seed % 7);
  o.wgmma_in_pieces = seed / 5 % 4 != 0;
  o.poison = seed % 2 ? 0xFF : std::uint8_t(seed * 37);
  return o;
}

Cta::~Cta() {
  drop_state(*this);
  if (window) munmap(window, kWindowBytes);
}

Emulator::Emulator(GlobalMemory& memory) : memory_(memory), pool_(std::make_unique<Pool>()) {}
Emulator::~Emulator() = default;

void Emulator::synchronize() { pool_->chain.clear(); }

LaunchResult Emulator::launch(const Launch& launch, const Options& options) {
  check_launch(launch);
  catch_divisions();
  LaunchResult all;
  if (launch.shared_bytes > std::size_t(sm90::kSharedBytesPerCta)) {
    all.finished = false;
    all.reports.push_back(
        {"smem-size", "launch",
         say("the kernel asks for ", std::uint64_t(launch.shared_bytes),
             " bytes of dynamic shared memory; the limit is ", sm90::kSharedBytesPerCta, " (227 KB)")});
    return all;
  }
  Finished done(launch, options);
  const std::size_t ctas =
      launch.cooperative ? launch.grid
                         : std::clamp<std::size_t>(std::size_t(std::max(options.threads, 1)), 1, launch.grid);
  while (pool_->ctas.size() < ctas) pool_->ctas.push_back(std::make_unique<Cta>());
  for (std::size_t i = 0; i < ctas; ++i) map_memory(*pool_->ctas[i], launch);
  if (launch.cooperative)
    run_together(pool_->ctas, memory_, launch, options, done);
  else
    run_apart({pool_->ctas.data(), ctas}, memory_, launch, options, done);

  std::vector<RawReport> reports;
  const auto limit = std::size_t(std::max(options.max_reports, 1));
  for (unsigned i = 0; i < launch.grid && i <= done.first_failed; ++i)
    merge(all, reports, done.results[options.descending ? launch.grid - 1 - i : i], limit);
  if (done.first_failed == launch.grid && !launch.cooperative)
    report_conflicts(reports, done.logs, memory_, limit);
  if (!options.check || !all.finished)
    pool_->chain.clear();
  else
    report_early(reports, done, pool_->chain, launch, memory_, limit);

  std::vector<Pc> pcs;
  for (const RawReport& r : reports) {
    pcs.push_back(r.pc);
    Symboliser::collect(r.text, pcs);
  }
  pool_->symboliser.prepare(pcs);
  for (const RawReport& r : reports)
    all.reports.push_back({r.check, pool_->symboliser.where(r.pc), pool_->symboliser.resolve(r.text)});
  all.traces = std::move(done.traces);
  return all;
}

}  // namespace moe::device::emulator
