// wgmma: an instruction forms when all 128 threads of a warpgroup have issued it, runs between then and the
// wait, at one moment or in pieces (operands by 16 rows, also of instructions behind the next one;
// accumulators by warps), and all warps may count on it once one of them has waited.
#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"
#include "device/hopper/emulated.hpp"

namespace moe::device::emulator {
namespace {

constexpr int kThreads = sm90::kThreadsPerWarpgroup, kRows = sm90::kWgmmaM, kStepBytes = sm90::kWgmmaK8bit;

std::uint32_t start_of(std::uint64_t descriptor) { return std::uint32_t(descriptor & 0x3FFF) << 4; }

/// A K-major operand as its descriptor says (PTX ISA, "Matrix Descriptor" and "Tensor Swizzling Modes"):
/// 8-row groups are SBO apart; with a swizzle a row is as wide as that, without one 16 bytes, and LBO lies
/// between columns.
struct Operand {
  hopper::Swizzle swizzle;
  std::uint32_t start, column, group, row;
  explicit Operand(std::uint64_t descriptor)
      : swizzle(hopper::Swizzle(descriptor >> 62)),
        start(start_of(descriptor)),
        column(swizzle == hopper::Swizzle::none ? std::uint32_t((descriptor >> 16) & 0x3FFF) << 4 : 16),
        group(std::uint32_t((descriptor >> 32) & 0x3FFF) << 4),
        row(row_bytes(swizzle)) {}
  /// Shared offset of byte k (a multiple of 16) of a row.
  std::uint32_t offset(std::uint32_t r, std::uint32_t k) const {
    return swizzled(swizzle, start + r / 8 * group + r % 8 * row + k / 16 * column);
  }
};

void read_operand(const Cta& c, std::uint64_t descriptor, int first, int last, std::uint8_t* to) {
  const Operand operand(descriptor);
  for (int r = first; r < last; ++r)
    for (int k = 0; k < kStepBytes; k += 16)
      std::memcpy(to + r * kStepBytes + k, c.shared + operand.offset(std::uint32_t(r), std::uint32_t(k)), 16);
}

/// Calls move(slab, registers) for each pair of accumulators of the threads; slab is d[64][n], row-major.
template <class Move>
void for_each_pair(const WgmmaOp& op, float* slab, Move move, int first = 0, int last = kThreads) {
  for (int t = first; t < last; ++t) {
    float* row = slab + (t / 32 * 16 + t % 32 / 4) * op.n + 2 * (t % 4);
    float* d = op.d[std::size_t(t)];
    for (int i = 0; i < op.n / 2; i += 4) {
      move(row + 2 * i, d + i);
      move(row + 8 * op.n + 2 * i, d + i + 2);
    }
  }
}

void gather(const WgmmaOp& op, float* slab) {
  for_each_pair(op, slab, [](float* to, const float* regs) { std::memcpy(to, regs, 8); });
}

/// Runs ops first..last, which share their accumulators: these are gathered and scattered once.
void run_chain(Cta& c, Warpgroup& g, std::uint32_t first, std::uint32_t last) {
  auto& [a, b, d, discarded] = c.slabs;
  const WgmmaOp& head = g.op(first);
  if (head.scale_d) gather(head, d);
  for (std::uint32_t i = first; i <= last; ++i) {
    const WgmmaOp& op = g.op(i);
    read_operand(c, op.desc_a, 0, kRows, a);
    read_operand(c, op.desc_b, 0, op.n, b);
    c.options->arithmetic.wgmma_e4m3(a, b, d, op.n, !op.scale_d);
    ++c.counts.wgmma[std::size_t(op.n / 8)];
  }
  for_each_pair(head, d, [](const float* slab, float* regs) { std::memcpy(regs, slab, 8); });
}

/// Reads 16 rows, not yet read, of one of the next few instructions; false when there are none. The tensor
/// core fetches ahead: nothing orders the operand reads of the instructions of a group (PTX ISA,
/// "wgmma.commit_group").
bool read_piece(Cta& c, Warpgroup& g) {
  constexpr std::uint32_t kAhead = 8;
  constexpr int kPieceRows = 16, kPiecesOfA = kRows / kPieceRows;
  std::array<std::uint32_t, kAhead> open;
  std::uint32_t count = 0;
  for (std::uint32_t number = g.done + 1; number <= std::min(g.formed, g.done + kAhead); ++number)
    if (!g.op(number).operands || g.op(number).operands->unread) open[count++] = number;
  if (count == 0) return false;
  WgmmaOp& op = g.op(open[c.random.below(count)]);
  if (!op.operands) {
    op.operands = std::make_unique<WgmmaOperands>();
    op.operands->unread = (1u << (kPiecesOfA + (op.n + kPieceRows - 1) / kPieceRows)) - 1;
  }
  WgmmaOperands& to = *op.operands;
  const int piece = c.random.bit(to.unread);
  to.unread &= ~(1u << piece);
  if (piece < kPiecesOfA) {
    read_operand(c, op.desc_a, kPieceRows * piece, kPieceRows * (piece + 1), to.a);
  } else {
    const int first = kPieceRows * (piece - kPiecesOfA);
    read_operand(c, op.desc_b, first, std::min(first + kPieceRows, op.n), to.b);
  }
  return true;
}

/// The accumulators of one warp get the result of the next instruction, whose operands have all been read.
void write_piece(Cta& c, Warpgroup& g) {
  WgmmaOp& op = g.op(g.done + 1);
  if (g.unwritten_warps == 0) {
    if (!g.result) g.result = std::make_unique<float[]>(std::size(c.slabs.d));
    if (op.scale_d) gather(op, g.result.get());
    c.options->arithmetic.wgmma_e4m3(op.operands->a, op.operands->b, g.result.get(), op.n, !op.scale_d);
    ++c.counts.wgmma[std::size_t(op.n / 8)];
    g.unwritten_warps = 15;
  }
  const int warp = c.random.bit(g.unwritten_warps);
  for_each_pair(
      op, g.result.get(), [](const float* from, float* regs) { std::memcpy(regs, from, 8); }, 32 * warp,
      32 * warp + 32);
  g.unwritten_warps &= ~(1u << warp);
  if (g.unwritten_warps) return;
  op.operands.reset();
  ++g.done;
}

void run_piece(Cta& c, Warpgroup& g) {
  const WgmmaOp& next = g.op(g.done + 1);
  const bool ready = next.operands && next.operands->unread == 0;
  if ((ready && c.random.below(2)) || !read_piece(c, g)) write_piece(c, g);
}

/// Instructions that have all been done are forgotten.
void forget_done(Warpgroup& g) {
  if (g.done != g.first + g.ops.size() || g.ops.size() < 64) return;
  g.first = g.done;
  g.ops.clear();
}

/// What all four warps of the group know; a lane's knowledge counts for its warp (README.md, "Readings").
void update_minimum(Cta& c, Warpgroup& g, int group) {
  if (g.minimum_version == g.knowledge_version) return;
  g.minimum_version = g.knowledge_version;
  const auto n = std::size_t(c.snapshots.components());
  g.seen_by_all.assign(n, 0x7FFFFFFF);
  g.fenced_by_all.assign(n, 0x7FFFFFFF);
  for (int warp = 0; warp < 4; ++warp) {
    Gathering known;
    for (int lane = 0; lane < 32; ++lane) {
      const Thread& t = c.threads[std::size_t(group * kThreads + warp * 32 + lane)];
      known.add(c.snapshots, t.knows, t.id);
    }
    const SnapshotRef s = known.publish(c.snapshots, false);
    for (std::size_t i = 0; i < n; ++i) {
      g.seen_by_all[i] = std::min(g.seen_by_all[i], s->seen[i]);
      g.fenced_by_all[i] = std::min(g.fenced_by_all[i], s->fenced[i]);
    }
  }
}

/// A tile that a tensor copy has laid out with one swizzle is no operand with another.
void check_swizzle(Cta& c, const WgmmaOp& op, bool is_b, const Operand& operand) {
  const int rows = is_b ? op.n : kRows;
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t at = operand.offset(std::uint32_t(r), 0);
    const Granule& g = c.granules[at / kGranule];
    if (!g.tma_bar || g.swizzle == hopper::Swizzle::none || g.swizzle == operand.swizzle) continue;
    return report(c, "descriptor", op.pc, "matrix descriptor ", is_b ? "B" : "A", " reads shared offset ", at,
                  " with the ", row_bytes(operand.swizzle), "-byte ",
                  operand.swizzle == hopper::Swizzle::none ? "rows of no swizzle" : "swizzle",
                  "; the copy issued at ", At{g.tma_pc}, " wrote it with the ", row_bytes(g.swizzle),
                  "-byte swizzle");
  }
}

void check_operand(Cta& c, const WgmmaOp& op, bool is_b, const Observer* seen, AsyncReader reader) {
  const Operand operand(is_b ? op.desc_b : op.desc_a);
  const std::uint32_t rows = is_b ? std::uint32_t(op.n) : std::uint32_t(kRows), start = operand.start;
  const std::uint32_t atom = 8 * operand.row;
  const char* letter = is_b ? "B" : "A";
  if (operand.group != atom)
    report(c, "descriptor", op.pc, "matrix descriptor ", letter, " has ", operand.group,
           " bytes between 8-row groups; a K-major tile with its ", operand.row, "-byte rows has ", atom);
  if (operand.swizzle != hopper::Swizzle::none && start % atom >= operand.row)
    report(c, "alignment", op.pc, "matrix descriptor ", letter, " starts at shared offset ", start,
           ": with the ", operand.row, "-byte swizzle the tile must be ", atom, "-byte aligned");
  if (operand.swizzle != hopper::Swizzle::none && start % operand.row + kStepBytes > operand.row)
    report(c, "descriptor", op.pc, "matrix descriptor ", letter, " starts at byte ", start % operand.row,
           " of a row of ", operand.row, ": the ", kStepBytes, " bytes of the instruction leave the tile");
  const std::uint32_t last = operand.offset(rows - 1, 0), past = operand.offset(rows - 1, 16);
  const std::uint32_t end = std::max(last, past) / operand.row * operand.row + operand.row;
  if (end > c.shared_bytes) {
    report(c, "smem-bounds", op.pc, "matrix descriptor ", letter, " covers shared memory up to offset ", end,
           " of ", c.shared_bytes);
    stop(c);
  }
  if (!seen) return;
  check_swizzle(c, op, is_b, operand);
  const char* what = is_b ? "wgmma (operand B)" : "wgmma (operand A)";
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t k = 0; k < std::uint32_t(kStepBytes); k += 16)
      async_read(c, operand.offset(r, k), 16, *seen, op.pc, what, reader);
}

void formed(Cta& c, int group, std::uint32_t number) {
  Warpgroup& g = c.groups[std::size_t(group)];
  g.formed = number;
  WgmmaOp& op = g.op(number);
  if (g.slot < 0) {
    if (c.reader_slots == kReaderSlots) {
      report(c, "limit", op.pc, "more than ", kReaderSlots, " warpgroups with wgmma are not emulated");
      stop(c);
    }
    g.slot = c.reader_slots++;
  }
  if (c.check) {
    update_minimum(c, g, group);
    const Observer seen{g.seen_by_all.data(), g.fenced_by_all.data(), -1, 0, 0};
    for (bool is_b : {false, true}) check_operand(c, op, is_b, &seen, {g.slot, number, 0});
  } else {
    for (bool is_b : {false, true}) check_operand(c, op, is_b, nullptr, {});
  }
  if (c.options->mode == Mode::eager) run_wgmmas(c, group, number);
}

Accumulators& accumulators_of(Thread& t, float* d, int registers) {
  const auto lo = reinterpret_cast<std::uintptr_t>(d);
  for (int i = 0; i < t.accumulator_count; ++i)
    if (t.accumulators[std::size_t(i)].lo == lo) return t.accumulators[std::size_t(i)];
  if (t.accumulator_count == int(t.accumulators.size())) {  // frames come and go: forget the oldest
    std::move(t.accumulators.begin() + 1, t.accumulators.end(), t.accumulators.begin());
    --t.accumulator_count;
  }
  Accumulators& r = t.accumulators[std::size_t(t.accumulator_count++)];
  r = {lo, lo + 4 * std::uintptr_t(registers), 0, 0, false};
  return r;
}

}  // namespace

void run_wgmmas(Cta& c, int group, std::uint32_t upto) {
  Warpgroup& g = c.groups[std::size_t(group)];
  while (g.done < upto && g.op(g.done + 1).operands) run_piece(c, g);  // begun in pieces
  while (g.done < upto) {
    const std::uint32_t first = g.done + 1;
    std::uint32_t last = first;
    while (last < upto && g.op(last + 1).n == g.op(first).n && g.op(last + 1).d == g.op(first).d) ++last;
    run_chain(c, g, first, last);
    g.done = last;
  }
  forget_done(g);
  release_wgmma_waits(c, group);
}

void wgmma_step(Cta& c, int group) {
  Warpgroup& g = c.groups[std::size_t(group)];
  if (!c.options->wgmma_in_pieces) return run_wgmmas(c, group, g.done + 1);
  run_piece(c, g);
  forget_done(g);
  release_wgmma_waits(c, group);
}

void discard_accumulators(Cta& c, const Thread& t) {
  Warpgroup& g = c.groups[std::size_t(t.group)];
  for (std::uint32_t number = std::max(g.done, t.waited) + 1; number <= t.issued; ++number)
    g.op(number).d[std::size_t(t.id % kThreads)] = c.slabs.discarded;
}

void release_wgmma_waits(Cta& c, int group) {
  const Warpgroup& g = c.groups[std::size_t(group)];
  for (int warp = 4 * group; warp < std::min(4 * group + 4, int(c.warps.size())); ++warp) {
    WarpState& w = c.warps[std::size_t(warp)];
    if (w.point != WarpPoint::wait || w.arrived != 32 || g.done < w.argument) continue;
    w.gathering.raise(c.group_component(group), Clock(w.argument));
    release_warp(c, w, warp, true);
    wake(c, Blocked::wgmma, std::uint32_t(group), warp * 32, warp * 32 + 32);
  }
}

}  // namespace moe::device::emulator

namespace moe::hopper::engine {
using namespace moe::device::emulator;

std::uint64_t descriptor(const void* p, Swizzle swizzle, std::uint32_t column_bytes) {
  const std::uint64_t offset = std::uint64_t(static_cast<const std::uint8_t*>(p) - current->shared);
  return (offset & 0x3FFFF) >> 4 | std::uint64_t(column_bytes >> 4) << 16 |
         std::uint64_t(8 * row_bytes(swizzle) >> 4) << 32 | std::uint64_t(swizzle) << 62;
}

void wgmma_fence(float* d, int registers) {
  Cta& c = *current;
  Thread& t = *c.running;
  accumulators_of(t, d, registers);
  for (int i = 0; i < t.accumulator_count; ++i) {  // the instruction covers all registers of the thread
    t.accumulators[std::size_t(i)].touched = 0;
    t.accumulators[std::size_t(i)].fenced = true;
  }
  pass_warp_point(c, WarpPoint::fence, MOE_CALLER());
  maybe_yield(c);
}

void wgmma_e4m3(float* d, int n, std::uint64_t desc_a, std::uint64_t desc_b, bool scale_d) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  Thread& t = *c.running;
  maybe_yield(c, 4);
  Accumulators& r = accumulators_of(t, d, n / 2);
  if (c.check && !r.fenced)
    report(c, "wgmma-fence", pc, "no wgmma.fence before the first wgmma on these accumulators");
  else if (c.check && r.touched)
    report(c, "wgmma-fence", pc, "accumulator registers were accessed at ", At{r.touched},
           " after the last wgmma.fence");
  r.touched = 0;
  r.fenced = true;
  const std::uint32_t number = r.last_issue = ++t.issued;
  Warpgroup& g = c.groups[std::size_t(t.group)];
  if (g.first + g.ops.size() < number) {
    WgmmaOp op;
    op.desc_a = desc_a;
    op.desc_b = desc_b;
    op.n = n;
    op.scale_d = scale_d;
    op.pc = pc;
    g.ops.push_back(std::move(op));
  }
  WgmmaOp& op = g.op(number);
  if (op.desc_a != desc_a || op.desc_b != desc_b || op.scale_d != scale_d || op.n != n || op.pc != pc)
    report(c, "wgmma-not-uniform", pc, Who{t.id},
           " executes a different wgmma (or other descriptors) than the rest of its warpgroup, which is at ",
           At{op.pc});
  op.d[std::size_t(t.id % kThreads)] = d;
  if (++op.arrived == kThreads) formed(c, t.group, number);
}

void wgmma_commit() {
  Cta& c = *current;
  c.running->wgmma_groups.push_back(c.running->issued);
  pass_warp_point(c, WarpPoint::commit, MOE_CALLER());
  maybe_yield(c, 4);
}

void wgmma_wait(int groups_left, float*, int) {
  Cta& c = *current;
  const Pc pc = MOE_CALLER();
  maybe_yield(c);
  Thread& t = *c.running;
  std::uint32_t need = t.waited;
  if (int(t.wgmma_groups.size()) > groups_left) {
    const std::size_t over = t.wgmma_groups.size() - std::size_t(groups_left);
    need = std::max(need, t.wgmma_groups[over - 1]);
    t.wgmma_groups.erase(t.wgmma_groups.begin(), t.wgmma_groups.begin() + std::ptrdiff_t(over));
  }
  WarpState& w = c.warps[std::size_t(t.warp)];
  const std::uint32_t generation = w.generation;
  const bool last = arrive_at_warp(c, WarpPoint::wait, pc, true);
  w.argument = std::max(w.argument, need);
  if (last) {
    const Warpgroup& g = c.groups[std::size_t(t.group)];
    if (c.options->mode == Mode::deterministic && g.done < w.argument && g.formed >= w.argument)
      run_wgmmas(c, t.group, w.argument);
    else
      release_wgmma_waits(c, t.group);
  }
  wait_for_warp(c, generation, Blocked::wgmma, std::uint32_t(t.group), pc);
  t.waited = std::max(t.waited, need);
  acquire(c, t, w.released);
}

}  // namespace moe::hopper::engine
