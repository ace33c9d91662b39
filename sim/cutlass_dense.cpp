#include "sim/cutlass_dense.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/errors.hpp"
#include "sim/clock.hpp"
#include "sim/instruction.hpp"

namespace moe::sim {
namespace {

constexpr double kOutputBytes = 2;

/// CTAs and what a wave of them moves. An odd number of panels leaves the second CTA of each last cluster
/// without work.
struct Grid {
  std::int64_t tiles = 0, slots = 0;  // slots: of whole clusters
  double panels = 0, blocks = 0;

  Grid(const GemmShape& gemm, std::int64_t m) {
    const std::int64_t b = gemm.blocks(m), p = gemm.panels();
    tiles = b * p;
    slots = b * ((p + kDenseCluster - 1) / kDenseCluster * kDenseCluster);
    panels = double(p), blocks = double(b);
  }
};

class Run {
 public:
  Run(const Hardware& hw, const GemmShape& gemm, std::int64_t m)
      : hw_(hw), gemm_(gemm), m_(m), grid_(gemm, m), kblock_(kblock_cost(hw, gemm)) {
    const double pieces = double(gemm.tile.block_n) / kDenseEpilogueColumns;
    const double outputs = double(gemm.tile.block_m) * gemm.tile.block_n / (gemm.math_warps() * 32.0);
    epilogue_ = pieces * hw.epilogue_cycles + outputs * hw.epilogue_cycles_per_output;
  }

  GemmTime at(double hz) const {
    GemmTime time;
    time.hz = hz;
    const std::int64_t whole = (grid_.slots - 1) / hw_.sms, last = grid_.slots - whole * hw_.sms;
    if (whole > 0) add(time, hw_.sms, whole, epilogue_, hz);
    add(time, last, 1, 0, hz);
    const Traffic first = traffic(double(std::min<std::int64_t>(grid_.slots, hw_.sms)), 1);
    time.start = hw_.prologue_s + hw_.hbm_latency_s + memory_seconds(hw_, first, hw_.sms, inflight_kb());
    time.end = epilogue_ / hz + hw_.l2_latency_s;
    time.seconds += time.start + time.end;
    time.tiles = grid_.tiles;
    time.grid = std::min<std::int64_t>(grid_.slots, hw_.sms);
    time.kblock = kblock_;
    const double busy = double(grid_.tiles) * double(gemm_.kblocks()) * kblock_.tensor_busy;
    time.tensor_active = busy / (hw_.sms * hz * time.seconds);
    return time;
  }

 private:
  double inflight_kb() const { return double((gemm_.stages() - 1) * gemm_.load_bytes()) / 1024; }

  /// Bytes that `slots` tiles take for `kblocks` of their k. Each input comes from HBM once, shared out over
  /// all tiles; what else the SMs read comes from L2, the token tile once a cluster.
  Traffic traffic(double slots, double kblocks) const {
    const double share = slots / double(grid_.slots), all = double(gemm_.kblocks());
    const double inputs = double(gemm_.k) * (double(m_) + double(gemm_.n)) * kblocks / all;
    const double side = double(kDenseTile) * kDenseTile;
    const double read =
        slots * double(grid_.tiles) / double(grid_.slots) * kblocks * side * (1 + 1.0 / kDenseCluster);
    Traffic t;
    t.hbm_read = inputs * share;
    t.l2_read = std::max(read - t.hbm_read, 0.0);
    return t;
  }

  void add(GemmTime& time, std::int64_t slots, std::int64_t waves, double epilogue, double hz) const {
    const double kblocks = double(gemm_.kblocks());
    Traffic t = traffic(double(slots), kblocks);
    const double output = double(m_) * double(gemm_.n) * kOutputBytes;
    const bool leaves = output > l2_capacity(hw_);
    (leaves ? t.hbm_written : t.l2_written) = output * double(slots) / double(grid_.slots);
    const double math = (kblocks * kblock_.cycles + epilogue) / hz;
    const double fill = kblocks * double(gemm_.load_bytes()) / (hw_.fill_bytes_per_cycle * hz);
    const double memory = std::max(fill, memory_seconds(hw_, t, double(slots), inflight_kb()));
    const double seconds = soft_maximum(math, memory, hw_.overlap_exponent);
    time.add_waves({waves, slots, t}, math, memory, seconds, hw_.sms);
  }

  const Hardware& hw_;
  const GemmShape& gemm_;
  std::int64_t m_;
  Grid grid_;
  KblockCost kblock_;
  double epilogue_ = 0;
};

}  // namespace

GemmShape dense_gemm_shape(const Problem& p, const Choice& choice) {
  if (p.op != Op::grouped_gemm || p.shape.local_experts() != 1)
    throw BadInput(
        "cutlass_blockwise_dense is one dense GEMM: --op grouped_gemm --experts 1 --top-k 1, tokens are its "
        "rows");
  if (p.quant.kind != QuantKind::block128)
    throw BadInput("cutlass_blockwise_dense has 128x128 block scales: --quant block128");
  GemmShape gemm;
  gemm.name = "grouped_gemm";
  gemm.n = p.gemm == 1 ? p.shape.up_rows() : p.shape.hidden;
  gemm.k = p.gemm == 1 ? p.shape.hidden : p.shape.local_intermediate();
  gemm.layout = Layout::normal_wgmma;
  gemm.tile.block_m = gemm.tile.block_n = kDenseTile;
  gemm.block_scales = true;
  const TileConfig& t = choice.tile;
  if (!t.automatic() && (t.block_m != kDenseTile || t.block_n != kDenseTile || t.block_k != kDenseTile))
    throw BadInput(fmt::format("tile {}: cutlass_blockwise_dense has one, 128x128x128", to_string(t)));
  return gemm;
}

Counts dense_counts(const GemmShape& gemm, std::int64_t m, int sms) {
  const Grid grid(gemm, m);
  Counts counts;
  counts.ctas = std::min<std::int64_t>(grid.slots, sms);
  counts.tiles = grid.tiles;
  const KblockInstructions instructions = kblock_instructions(gemm);
  counts.wgmma[instructions.wgmma_n] = grid.tiles * gemm.kblocks() * instructions.wgmma;
  return counts;
}

GemmTime schedule_dense_gemm(const Hardware& hw, const GemmShape& gemm, std::int64_t m) {
  const Run run(hw, gemm, m);
  GemmTime time = run.at(settle_clock(hw, [&](double hz) { return run.at(hz).tensor_active; }));
  time.shared_bytes = double(time.tiles) * double(gemm.kblocks()) *
                      (double(gemm.load_bytes()) + time.kblock.shared * hw.shared_bytes_per_cycle);
  const double waves = time.seconds - time.start - time.end;
  time.limit = waves < time.start + time.end                 ? Limit::latency
               : time.math > time.memory                     ? time.kblock.limit
               : time.traffic.hbm() >= time.traffic.l2() / 2 ? Limit::hbm
                                                             : Limit::l2;
  return time;
}

}  // namespace moe::sim
