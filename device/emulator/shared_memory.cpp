// Shared memory and its shadow: who wrote and read each byte last, and was that ordered before this access?
#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"
#include "device/emulator/shared_cells.hpp"

namespace moe::device::emulator {
namespace {

struct Span {  // the part of an access inside one granule
  std::uint32_t lo, hi;
  std::uint16_t bits;
};
Span part(std::uint32_t granule, std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t lo = std::max(granule, offset), hi = std::min(granule + kGranule, offset + bytes);
  return {lo, hi, std::uint16_t(((1u << (hi - lo)) - 1) << (lo - granule))};
}

/// Some wgmma that reads this granule is not known to be over.
bool wgmma_may_read(const Cta& c, const Granule& g, const Observer& seen) {
  for (const Warpgroup& group : c.groups) {
    if (group.slot < 0) continue;
    const std::uint32_t number = g.wgmma[group.slot];
    if (number && !seen.knows(c.group_component(int(&group - c.groups.data())), Clock(number))) return true;
  }
  return false;
}

/// A bulk store that may still read this granule, or null.
const BulkStore* bulk_may_read(const Cta& c, const Granule& g, const Observer& seen) {
  for (std::uint32_t i = g.bulk_readers; i; i = c.bulk_readers[i].next) {
    const BulkStore& b = c.bulk_stores[c.bulk_readers[i].store];
    if (!b.waited || !seen.knows(b.thread, b.waited)) return &b;
  }
  return nullptr;
}

/// The list `readers` and bulk store `number` of the running thread, without those that are over for whoever
/// knows that this one is: it has seen their end, or waits for them first because they are its own.
std::uint32_t with_bulk_reader(Cta& c, std::uint32_t readers, std::uint32_t number, const Observer& seen) {
  std::uint32_t list = 0;
  for (std::uint32_t i = readers; i; i = c.bulk_readers[i].next) {
    const BulkStore& b = c.bulk_stores[c.bulk_readers[i].store];
    if (b.thread == seen.self || (b.waited && seen.knows(b.thread, b.waited))) continue;
    c.bulk_readers.push_back({c.bulk_readers[i].store, list});
    list = std::uint32_t(c.bulk_readers.size() - 1);
  }
  c.bulk_readers.push_back({number, list});
  return std::uint32_t(c.bulk_readers.size() - 1);
}

bool tma_unseen(const Cta& c, const Granule& g, const Observer& seen) {
  return g.tma_bar && !seen.knows(c.mbarrier_component(g.tma_bar - 1), Clock(g.tma_phase));
}

/// Checks of an ordinary access against asynchronous work on the same granule.
void granule_access(Cta& c, Granule& g, const Span& s, bool write, const Thread& t, const Observer& seen,
                    Pc pc) {
  if (g.mbarrier_bytes & s.bits)
    report(c, "mbarrier-object", pc, "ordinary ", write ? "write" : "read",
           " of the bytes of an mbarrier object");
  if (tma_unseen(c, g, seen))
    report(c, write ? "tma-write-race" : "read-before-tma", pc, Who{t.id}, write ? " writes" : " reads",
           " shared offset ", s.lo, ", filled by the copy issued at ", At{g.tma_pc},
           g.in_flight ? ", before that copy has landed"
                       : ", without a wait for the mbarrier phase that signals it (it had landed by luck)");
  if (write) {
    if (wgmma_may_read(c, g, seen))
      report(c, "overwrite-under-wgmma", pc, Who{t.id}, " writes shared offset ", s.lo,
             " while the wgmma issued at ", At{g.wgmma_pc}, " may still read it");
    if (const BulkStore* b = bulk_may_read(c, g, seen))
      report(c, "overwrite-under-bulk-store", pc, Who{t.id}, " writes shared offset ", s.lo,
             " while the bulk store issued at ", At{b->pc},
             " may still read it (no cp.async.bulk.wait_group.read is ordered before)");
    g.initialised |= s.bits;
    g.swizzle = hopper::Swizzle::none;  // the copy stays: others must have seen it all the same
  } else if ((g.initialised & s.bits) != s.bits) {
    report(c, "uninitialised-smem", pc, Who{t.id}, " reads shared offset ", s.lo,
           ", which nothing has written");
  }
}

}  // namespace

std::uint32_t shared_offset(Cta& c, const void* p, std::uint32_t bytes, Pc pc, const char* what) {
  const std::int64_t offset = static_cast<const std::uint8_t*>(p) - c.shared;
  if (offset < 0 || offset + std::int64_t(bytes) > std::int64_t(c.shared_bytes)) {
    report(c, "smem-bounds", pc, what, " of ", bytes, " bytes at shared offset ", offset,
           ", but the kernel has ", c.shared_bytes, " bytes of dynamic shared memory");
    stop(c);
  }
  return std::uint32_t(offset);
}

void shared_access(Cta& c, std::uint32_t offset, std::uint32_t bytes, bool write, Pc pc) {
  const Thread& t = *c.running;
  const Observer seen = observer(t.knows, t.id);
  for (std::uint32_t a = offset / kGranule * kGranule; a < offset + bytes; a += kGranule) {
    Granule& g = c.granules[a / kGranule];
    const Span s = part(a, offset, bytes);
    granule_access(c, g, s, write, t, seen, pc);
    access_cells(c, g, a, s.lo, s.hi, write, seen, pc);
  }
}

void async_read(Cta& c, std::uint32_t offset, std::uint32_t bytes, const Observer& seen, Pc pc,
                const char* what, AsyncReader reader) {
  bool first = true;                    // granules with the same readers share the list
  std::uint32_t before = 0, after = 0;  // without and with this one
  for (std::uint32_t a = offset / kGranule * kGranule; a < offset + bytes; a += kGranule) {
    Granule& g = c.granules[a / kGranule];
    const Span s = part(a, offset, bytes);
    if (tma_unseen(c, g, seen))
      report(
          c, "read-before-tma", pc, what, " reads shared offset ", a, ", filled by the copy issued at ",
          At{g.tma_pc},
          g.in_flight ? ", before that copy has landed" : ", without a wait for the phase that signals it");
    if ((g.initialised & s.bits) != s.bits)
      report(c, "uninitialised-smem", pc, what, " reads shared offset ", a, ", which nothing has written");
    if (g.cells_used) async_read_cells(c, a, seen, pc, what);
    if (reader.slot >= 0) {
      g.wgmma[reader.slot] = reader.wgmma;
      g.wgmma_pc = pc;
    } else {
      if (first || g.bulk_readers != before) {
        before = g.bulk_readers;
        after = with_bulk_reader(c, before, reader.bulk_store, seen);
        first = false;
      }
      g.bulk_readers = after;
    }
  }
}

void async_write(Cta& c, std::uint32_t offset, std::uint32_t bytes, const Observer& seen, Pc pc, int bar,
                 std::uint32_t phase, hopper::Swizzle swizzle) {
  for (std::uint32_t a = offset; a < offset + bytes; a += kGranule) {
    Granule& g = c.granules[a / kGranule];
    if (tma_unseen(c, g, seen))
      report(c, "tma-overwrites-tma", pc, "copy into shared offset ", a,
             ", the target of the copy issued at ", At{g.tma_pc},
             " whose completion this thread has not observed");
    if (wgmma_may_read(c, g, seen))
      report(c, "overwrite-under-wgmma", pc, "copy overwrites shared offset ", a,
             " while the wgmma issued at ", At{g.wgmma_pc},
             " may still read it (no thread that waited for it has released the stage)");
    if (const BulkStore* b = bulk_may_read(c, g, seen))
      report(c, "overwrite-under-bulk-store", pc, "copy overwrites shared offset ", a,
             " while the bulk store issued at ", At{b->pc}, " may still read it");
    if (g.mbarrier_bytes) report(c, "mbarrier-object", pc, "copy overwrites an mbarrier object");
    async_write_cells(c, g, a, seen, pc);
    g.bulk_readers = 0;
    g.tma_bar = std::uint8_t(bar + 1);
    g.tma_phase = phase;
    g.tma_pc = pc;
    g.in_flight = 1;
    g.swizzle = swizzle;
  }
}

void reset_shared(Cta& c) {
  c.shared_bytes = std::uint32_t(c.launch->shared_bytes);
  if (c.shared_bytes) std::memset(c.shared, c.options->poison, c.shared_bytes);
  const std::size_t granules = (c.shared_bytes + kGranule - 1) / kGranule;
  if (c.granules.size() < granules) {
    c.granules.resize(granules);
    c.cells.resize(granules * (kGranule / 4));
  }
  if (granules) std::memset(c.granules.data(), 0, granules * sizeof(Granule));
  reset_cells(c);
  c.bulk_readers.assign(1, {});  // number 0 means none
}

}  // namespace moe::device::emulator
