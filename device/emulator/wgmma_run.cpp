// When are the instructions of a warpgroup done, and in which pieces? At one moment, or operands by 16 rows
// (also of instructions behind the next one) and accumulators by warps.
#include <algorithm>
#include <cstring>

#include "device/emulator/wgmma_operand.hpp"

namespace moe::device::emulator {
namespace {

constexpr int kThreads = sm90::kThreadsPerWarpgroup;

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
    read_operand(c, op.desc_a, 0, kWgmmaRows, a);
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
  constexpr int kPieceRows = 16, kPiecesOfA = kWgmmaRows / kPieceRows;
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
    if (c.check) w.gathering.raise(c.snapshots, c.group_component(group), Clock(w.argument));
    release_warp(c, w, warp, true);
    wake(c, Blocked::wgmma, std::uint32_t(group), warp * 32, warp * 32 + 32);
  }
}

}  // namespace moe::device::emulator
