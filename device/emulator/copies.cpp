// Asynchronous copies: TMA boxes and bulk loads that land piecewise when the mode says so, bulk stores with
// their groups.
#include <algorithm>
#include <cstring>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {
namespace {

constexpr std::uint32_t kTmaAlignment = 128;  // PTX ISA, "cp.async.bulk.tensor": shared memory address

void land(Cta& c, std::uint32_t offset, const void* sixteen_bytes) {
  std::memcpy(c.shared + offset, sixteen_bytes, kGranule);
  Granule& g = c.granules[offset / kGranule];
  g.initialised = 0xFFFF;
  g.in_flight = 0;
}

/// One row of a tensor box; what lies outside the matrix is zero.
void land_row(Cta& c, const Copy& copy, std::uint32_t row) {
  const hopper::EmulatedTensorMap& m = copy.map;
  const std::int64_t y = std::int64_t(copy.y) + row, x = copy.x;
  const bool row_inside = y >= 0 && y < std::int64_t(m.rows);
  const bool whole = row_inside && x >= 0 && x + copy.row_bytes <= std::int64_t(m.cols);
  const auto* source =
      reinterpret_cast<const std::uint8_t*>(m.base + (row_inside ? std::uint64_t(y) * m.stride : 0));
  const std::uint32_t target = copy.target + row * copy.row_bytes;
  for (std::uint32_t i = 0; i < copy.row_bytes; i += kGranule) {
    if (whole) {
      land(c, swizzled(m.swizzle, target + i), source + x + i);
      continue;
    }
    std::uint8_t bytes[kGranule] = {};
    for (std::uint32_t j = 0; row_inside && j < kGranule; ++j)
      if (x + i + j >= 0 && x + i + j < std::int64_t(m.cols)) bytes[j] = source[x + i + j];
    land(c, swizzled(m.swizzle, target + i), bytes);
  }
}

void land_piece(Cta& c, const Copy& copy, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t row = first; row < last; ++row) {
    if (copy.tensor)
      land_row(c, copy, row);
    else
      land(c, copy.target + row * kGranule, copy.source + row * kGranule);
  }
  c.mbarriers[std::size_t(copy.bar)].bytes_due -= std::int64_t(last - first) * copy.row_bytes;
}

/// The part of a box that lies in the matrix: `rows` rows of `width` bytes from `first` on.
struct Inside {
  std::uint64_t first = 0, width = 0, rows = 0;
};
Inside inside(const hopper::EmulatedTensorMap& m, int x, int y) {
  const std::int64_t x0 = std::max(x, 0),
                     x1 = std::min<std::int64_t>(std::int64_t(x) + m.box_cols, std::int64_t(m.cols));
  const std::int64_t y0 = std::max(y, 0),
                     y1 = std::min<std::int64_t>(std::int64_t(y) + m.box_rows, std::int64_t(m.rows));
  if (x0 >= x1 || y0 >= y1) return {};
  return {m.base + std::uint64_t(y0) * m.stride + std::uint64_t(x0), std::uint64_t(x1 - x0),
          std::uint64_t(y1 - y0)};
}

/// What a copy reads from global memory may be written by a kernel: its order, row by row.
void order_source(Cta& c, const Copy& copy, Pc pc, int bar, std::uint32_t phase) {
  if (!copy.tensor) {
    const auto a = reinterpret_cast<std::uintptr_t>(copy.source);
    if (is_ordered(c, a)) order_copy_read(c, a, std::uint64_t(copy.rows) * copy.row_bytes, pc, bar, phase);
    return;
  }
  const Inside in = inside(copy.map, copy.x, copy.y);
  if (in.rows == 0 || !is_ordered(c, in.first)) return;
  for (std::uint64_t row = 0; row < in.rows; ++row)
    order_copy_read(c, in.first + row * copy.map.stride, in.width, pc, bar, phase);
}

/// The initialisation must have been made visible to the asynchronous proxy, by its thread's
/// fence.mbarrier_init or anybody's fence.proxy.async, and that must be ordered before the copy.
void check_init_fence(Cta& c, const Mbarrier& b, Pc pc) {
  if (!c.check) return;
  const Observer seen = observer(c.running->knows, c.running->id);
  if (b.fenced && seen.knows(b.init_thread, b.fenced)) return;
  if (seen.fenced_since(b.init_thread, b.init_clock)) return;
  report(c, "mbarrier-init-fence", pc, "the copy signals an mbarrier whose initialisation at ", At{b.init_pc},
         b.fenced ? " was followed by a fence.mbarrier_init that is not ordered before this copy"
                  : " was not followed by fence.mbarrier_init");
}

/// Common part of loads: the mbarrier, the shadow of the target, the pieces; lands at once where the mode
/// says so.
void issue(Cta& c, const Copy& prototype, const void* bar, Pc pc) {
  int index = 0;
  Mbarrier& b = *find_mbarrier(c, bar, pc, "copy", index);
  check_init_fence(c, b, pc);
  const std::uint32_t bytes = prototype.rows * prototype.row_bytes;
  shared_offset(c, c.shared + prototype.target, bytes, pc, "copy");
  b.issued += bytes;
  ++b.copies_in_flight;
  b.last_copy_pc = pc;
  b.copy_phase = b.phase + 1;
  c.counts.load_bytes += bytes;
  ++c.counts.loads;
  if (prototype.tensor && c.options->trace)
    c.trace.boxes.push_back({prototype.map.base, prototype.x, prototype.y});
  if (c.check)
    async_write(c, prototype.target, bytes, observer(c.running->knows, c.running->id), pc, index, b.phase + 1,
                prototype.tensor ? prototype.map.swizzle : hopper::Swizzle::none);
  // whoever sees this copy land is behind the wait too: a launch that has ended stays so
  if (c.check && observer(c.running->knows, c.running->id).knows(c.grid_component(), 1))
    b.released.raise(c.snapshots, c.grid_component(), 1);
  if (c.check) order_source(c, prototype, pc, index, b.phase + 1);
  c.copies.push_back(prototype);
  Copy& copy = c.copies.back();
  copy.bar = index;
  const std::uint32_t pieces = c.lands_at_once() ? 1 : std::min(copy.rows, 1u << c.random.below(4));
  for (std::uint32_t k = 0; k < pieces; ++k)
    copy.pieces.emplace_back(std::uint32_t(std::uint64_t(copy.rows) * k / pieces),
                             std::uint32_t(std::uint64_t(copy.rows) * (k + 1) / pieces));
  if (c.lands_at_once()) copy_step(c, c.copies.size() - 1);
  maybe_yield(c);
}

/// The map itself must be readable: a parameter, or in global memory.
void check_map(Cta& c, std::uintptr_t map, Pc pc) {
  const auto params = reinterpret_cast<std::uintptr_t>(c.launch->params);
  const bool copied =
      map - c.running->stack_bottom < kStackBytes;  // parameters of a kernel that takes them by value
  if (copied || map - params < c.launch->params_bytes || c.memory->find(map)) return;
  report(c, "tensor-map", pc, "the tensor map at address ", std::uint64_t(map),
         " is neither a parameter of the kernel nor in global memory");
  stop(c);
}

/// The rows of a box that lie in the matrix are read from global memory.
void check_box(Cta& c, const hopper::EmulatedTensorMap& m, int x, int y, Pc pc) {
  const Inside in = inside(m, x, y);
  if (in.rows == 0) return;
  // first and last row bound all of them; the log wants each row, and only of memory that kernels may write
  global_access(c, in.first + (in.rows - 1) * m.stride, in.width, Access::read, pc, "TMA copy");
  if (!c.cached.logged) return global_access(c, in.first, in.width, Access::read, pc, "TMA copy");
  for (std::uint64_t row = 0; row + 1 < in.rows; ++row)
    global_access(c, in.first + row * m.stride, in.width, Access::read, pc, "TMA copy");
}

}  // namespace

void copy_step(Cta& c, std::size_t i) {
  Copy& copy = c.copies[i];
  const int bar = copy.bar;
  const std::size_t k = copy.pieces.size() > 1 ? c.random.below(std::uint32_t(copy.pieces.size())) : 0;
  const auto [first, last] = copy.pieces[k];
  copy.pieces[k] = copy.pieces.back();
  copy.pieces.pop_back();
  if (copy.pieces.empty()) --c.mbarriers[std::size_t(bar)].copies_in_flight;
  land_piece(c, copy, first, last);
  if (copy.pieces.empty()) {
    if (i + 1 != c.copies.size()) c.copies[i] = std::move(c.copies.back());
    c.copies.pop_back();
  }
  complete_phase_if_due(c, bar);
}

void bulk_step(Cta& c, std::size_t queued) {
  BulkStore& b = c.bulk_stores[c.bulk_queue[queued]];
  if (!b.read) {
    b.held = std::make_unique<std::uint8_t[]>(b.bytes);
    std::memcpy(b.held.get(), c.shared + b.source, b.bytes);
    b.read = true;
    wake(c, Blocked::bulk, std::uint32_t(b.thread), b.thread, b.thread + 1);
    if (!c.lands_at_once()) return;
  }
  c.bulk_queue[queued] = c.bulk_queue.back();
  c.bulk_queue.pop_back();
  std::memcpy(b.target, b.held.get(), b.bytes);
  b.held.reset();
  b.done = true;
  changed(c, reinterpret_cast<std::uintptr_t>(b.target), b.bytes);
  wake(c, Blocked::bulk, std::uint32_t(b.thread), b.thread, b.thread + 1);
}

}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

void tma_load_2d(void* dst, const TensorMap* map, void* bar, int x, int y) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Copy copy;
  copy.tensor = true;
  check_map(c, reinterpret_cast<std::uintptr_t>(map), pc);
  std::memcpy(&copy.map, map, sizeof copy.map);
  copy.x = x;
  copy.y = y;
  copy.rows = copy.map.box_rows;
  copy.row_bytes = copy.map.box_cols;
  copy.target = shared_offset(c, dst, kGranule, pc, "TMA copy");
  const hopper::Swizzle swizzle = copy.map.swizzle;
  if (std::uint32_t(swizzle) > 3 || copy.row_bytes != row_bytes(swizzle) || copy.rows == 0 ||
      copy.rows > sm90::kTensorMapMaxBox) {
    report(c, "tensor-map", pc, "the tensor map has boxes of ", copy.rows, " rows x ", copy.row_bytes,
           " bytes; 1..256 rows as wide as the swizzle are emulated (is it a map made by this machine?)");
    stop(c);
  }
  // the swizzle follows the address: where a tile must begin, the descriptor that reads it says
  if (copy.target % kTmaAlignment) {
    report(c, "alignment", pc, "the TMA box lands at shared offset ", copy.target,
           ", which is not a multiple of ", kTmaAlignment);
    stop(c);
  }
  check_box(c, copy.map, x, y, pc);
  issue(c, copy, bar, pc);
}

void bulk_load(void* dst, const void* src, std::uint32_t bytes, void* bar) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Copy copy;
  copy.source = static_cast<const std::uint8_t*>(src);
  copy.rows = bytes / kGranule;
  copy.row_bytes = kGranule;
  copy.target = shared_offset(c, dst, bytes, pc, "bulk load");
  const auto from = reinterpret_cast<std::uintptr_t>(src);
  if (copy.target % 16 || from % 16 || bytes % 16 || bytes == 0) {
    report(c, "alignment", pc, "cp.async.bulk needs 16-byte aligned addresses and size: shared offset ",
           copy.target, ", global address modulo 16 = ", std::uint64_t(from % 16), ", size ", bytes);
    stop(c);
  }
  global_access(c, from, bytes, Access::read, pc, "bulk load");
  issue(c, copy, bar, pc);
}

void bulk_store(void* dst, const void* src, std::uint32_t bytes) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Thread& t = *c.running;
  const std::uint32_t offset = shared_offset(c, src, bytes, pc, "bulk store");
  const auto to = reinterpret_cast<std::uintptr_t>(dst);
  if (offset % 16 || to % 16 || bytes % 16 || bytes == 0) {
    report(c, "alignment", pc, "cp.async.bulk needs 16-byte aligned addresses and size: shared offset ",
           offset, ", global address modulo 16 = ", std::uint64_t(to % 16), ", size ", bytes);
    stop(c);
  }
  global_access(c, to, bytes, Access::write, pc, "bulk store");
  const auto number = std::uint32_t(c.bulk_stores.size());
  BulkStore store;
  store.pc = pc;
  store.thread = t.id;
  store.source = offset;
  store.bytes = bytes;
  store.target = static_cast<std::uint8_t*>(dst);
  c.bulk_stores.push_back(std::move(store));
  if (is_ordered(c, to)) order_copy_write(c, to, bytes, pc, number);
  c.counts.store_bytes += bytes;
  if (c.check) async_read(c, offset, bytes, observer(t.knows, t.id), pc, "bulk store", {-1, 0, number});
  c.bulk_queue.push_back(number);
  t.bulk_stores.push_back(number);
  if (c.lands_at_once()) bulk_step(c, c.bulk_queue.size() - 1);
  maybe_yield(c);
}

void bulk_commit() {
  Thread& t = *current->running;
  t.bulk_groups.push_back(std::uint32_t(t.bulk_stores.size()));
  maybe_yield(*current);
}

void bulk_wait(int groups_left, bool read_only) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Thread& t = *c.running;
  if (int(t.bulk_groups.size()) <= groups_left) return;
  const std::size_t over = t.bulk_groups.size() - std::size_t(groups_left);
  const std::uint32_t last = t.bulk_groups[over - 1];
  const auto waiting_for = [&](std::uint32_t i) {
    const BulkStore& b = c.bulk_stores[t.bulk_stores[i]];
    return read_only ? !b.read : !b.done;
  };
  const std::uint32_t first = read_only ? t.bulk_read : 0;
  for (std::uint32_t i = first; i < last; ++i)
    while (waiting_for(i)) block(c, Blocked::bulk, std::uint32_t(t.id), 0, pc);
  for (std::uint32_t i = first; i < last; ++i) {
    BulkStore& b = c.bulk_stores[t.bulk_stores[i]];
    if (!b.waited) b.waited = t.knows.own;
    if (!read_only) b.written_known = t.knows.own;
  }
  t.bulk_read = std::max(t.bulk_read, last);
  if (read_only) return tick(c, t);  // a wait for the writes may follow
  t.bulk_read -= last;
  t.bulk_stores.erase(t.bulk_stores.begin(), t.bulk_stores.begin() + last);
  t.bulk_groups.erase(t.bulk_groups.begin(), t.bulk_groups.begin() + std::ptrdiff_t(over));
  for (std::uint32_t& end : t.bulk_groups) end -= last;
  tick(c, t);
}

}  // namespace moe::hopper::engine
