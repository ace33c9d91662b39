// Shared memory and its shadow: who wrote and read each byte last, and was that ordered before this access?
#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"

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

Cell* cells_of(Cta& c, std::uint32_t granule) { return &c.cells[granule / 4]; }

/// Cells are cleaned when a granule is first used, so that a CTA that never touches them pays nothing.
Cell* use_cells(Cta& c, Granule& g, std::uint32_t granule) {
  Cell* cells = cells_of(c, granule);
  if (!g.cells_used) {
    std::memset(cells, 0, 4 * sizeof(Cell));
    g.cells_used = 1;
  }
  return cells;
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

/// The bulk store that may still read this granule, or null; forgets one that is over.
const BulkStore* bulk_may_read(Cta& c, Granule& g, const Observer& seen) {
  if (!g.bulk_store) return nullptr;
  const BulkStore& b = c.bulk_stores[g.bulk_store - 1];
  if (!b.waited || !seen.knows(b.thread, b.waited)) return &b;
  g.bulk_store = 0;
  return nullptr;
}

bool tma_unseen(const Cta& c, const Granule& g, const Observer& seen) {
  return g.tma_bar && !seen.knows(c.mbarrier_component(g.tma_bar - 1), Clock(g.tma_phase));
}

/// A thread whose read of the cell is not ordered before, or -1.
int unordered_reader(const Cta& c, const Cell& cell, const Observer& seen) {
  if (cell.readers) {
    const std::vector<Clock>& set = c.read_sets[cell.readers];
    if (!any_above(set.data(), seen.seen, c.thread_count)) return -1;
    for (int i = 0; i < c.thread_count; ++i)
      if (set[std::size_t(i)] && i != seen.self && !seen.knows(i, set[std::size_t(i)])) return i;
    return -1;
  }
  return cell.read_clock && cell.reader != seen.self && !seen.knows(cell.reader, cell.read_clock)
             ? cell.reader
             : -1;
}

void forget_reads(Cta& c, Cell& cell) {
  cell.read_clock = 0;
  cell.read_bytes = 0;
  if (cell.readers) c.free_read_sets.push_back(cell.readers);
  cell.readers = 0;
}

std::uint16_t take_read_set(Cta& c) {
  if (c.free_read_sets.empty()) {
    c.read_sets.emplace_back(std::size_t(c.thread_count));
    c.free_read_sets.push_back(std::uint16_t(c.read_sets.size() - 1));
  }
  const std::uint16_t number = c.free_read_sets.back();
  c.free_read_sets.pop_back();
  std::fill(c.read_sets[number].begin(), c.read_sets[number].end(), 0);
  return number;
}

void note_read(Cta& c, Cell& cell, std::uint8_t bytes, const Thread& t, Pc pc) {
  cell.read_bytes |= bytes;
  cell.read_pc = pc;
  if (cell.readers) {
    c.read_sets[cell.readers][std::size_t(t.id)] = t.knows.own;
  } else if (!cell.read_clock || cell.reader == t.id ||
             observer(t.knows, t.id).knows(cell.reader, cell.read_clock)) {
    cell.read_clock = t.knows.own;
    cell.reader = std::uint16_t(t.id);
  } else {  // a second reader that is not ordered behind the first
    cell.readers = take_read_set(c);
    std::vector<Clock>& set = c.read_sets[cell.readers];
    set[cell.reader] = cell.read_clock;
    set[std::size_t(t.id)] = t.knows.own;
  }
}

void note_write(Cta& c, Cell& cell, std::uint8_t bytes, const Thread& t, Pc pc) {
  if (cell.write_clock == t.knows.own && cell.writer == t.id) {
    cell.write_bytes |= bytes;
  } else {
    cell.write_bytes = bytes;
    cell.writer = std::uint16_t(t.id);
    cell.write_clock = t.knows.own;
  }
  cell.write_pc = pc;
  if (cell.read_bytes & bytes) forget_reads(c, cell);
}

void cell_access(Cta& c, Cell& cell, std::uint32_t at, std::uint8_t bytes, bool write, const Thread& t,
                 const Observer& seen, Pc pc) {
  if (cell.write_clock && cell.writer != t.id && (cell.write_bytes & bytes) &&
      !seen.knows(cell.writer, cell.write_clock))
    report(c, "race", pc, Who{t.id}, write ? " writes" : " reads", " shared offset ", at, " that ",
           Who{cell.writer}, " wrote at ", At{cell.write_pc}, " without a barrier in between");
  if (!write) return note_read(c, cell, bytes, t, pc);
  if (cell.read_bytes & bytes)
    if (const int other = unordered_reader(c, cell, seen); other >= 0)
      report(c, "race", pc, Who{t.id}, " writes shared offset ", at, " that ", Who{other}, " read at ",
             At{cell.read_pc}, " without a barrier in between");
  note_write(c, cell, bytes, t, pc);
}

/// Checks of an ordinary access against asynchronous work on the same granule.
void granule_access(Cta& c, Granule& g, const Span& s, bool write, const Thread& t, const Observer& seen,
                    Pc pc) {
  if (g.holds_mbarrier)
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
    g.tma_bar = 0;
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
    Cell* cells = use_cells(c, g, a);
    const std::uint32_t bits = s.bits;
    for (std::uint32_t i = (s.lo - a) / 4; i <= (s.hi - 1 - a) / 4; ++i)
      cell_access(c, cells[i], a + 4 * i, std::uint8_t(bits >> (4 * i) & 15), write, t, seen, pc);
  }
}

void async_read(Cta& c, std::uint32_t offset, std::uint32_t bytes, const Observer& seen, Pc pc,
                const char* what, AsyncReader reader) {
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
    for (int i = 0; g.cells_used && i < 4; ++i) {
      const Cell& cell = cells_of(c, a)[i];
      if (!cell.write_clock) continue;
      if (!seen.knows(cell.writer, cell.write_clock))
        report(c, "race", pc, what, " reads shared offset ", a + 4 * std::uint32_t(i), " that ",
               Who{cell.writer}, " wrote at ", At{cell.write_pc}, " without a barrier in between");
      else if (!seen.fenced_since(cell.writer, cell.write_clock))
        report(c, "missing-proxy-fence", pc, what, " reads through the async proxy shared offset ",
               a + 4 * std::uint32_t(i), " that ", Who{cell.writer}, " wrote with an ordinary store at ",
               At{cell.write_pc}, "; no fence.proxy.async in between");
    }
    if (reader.slot >= 0) {
      g.wgmma[reader.slot] = reader.wgmma;
      g.wgmma_pc = pc;
    } else {
      g.bulk_store = reader.bulk_store;
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
    if (g.holds_mbarrier) report(c, "mbarrier-object", pc, "copy overwrites an mbarrier object");
    for (int i = 0; g.cells_used && i < 4; ++i) {
      Cell& cell = cells_of(c, a)[i];
      if (const int other = unordered_reader(c, cell, seen); other >= 0)
        report(c, "race", pc, "copy overwrites shared offset ", a, " that ", Who{other}, " read at ",
               At{cell.read_pc}, " without a barrier in between");
      if (cell.write_clock && !seen.knows(cell.writer, cell.write_clock))
        report(c, "race", pc, "copy overwrites shared offset ", a, " that ", Who{cell.writer}, " wrote at ",
               At{cell.write_pc}, " without a barrier in between");
      else if (cell.write_clock && !seen.fenced_since(cell.writer, cell.write_clock))
        report(c, "missing-proxy-fence", pc, "copy overwrites shared offset ", a,
               " written by an ordinary store at ", At{cell.write_pc}, "; no fence.proxy.async in between");
      forget_reads(c, cell);
    }
    g.cells_used = 0;
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
  c.read_sets.assign(1, {});  // number 0 means none
  c.free_read_sets.clear();
}

}  // namespace moe::device::emulator
