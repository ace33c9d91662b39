#include "sim/triton_moe.hpp"

#include <algorithm>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/sm90.hpp"
#include "sim/clock.hpp"
#include "sim/instruction.hpp"
#include "sim/waves.hpp"

namespace moe::sim {
namespace {

constexpr double kSchedulers = 4, kOutputBytes = 2;
/// A scaled promotion is two instructions a sum: part * scale, then * scale + sum.
constexpr double kPromotionOps = 2;
/// Issue slots of one 16-byte cp.async of a warp: address, mask, predicate, the copy. Counted by reasoning.
constexpr double kSlotsPerCopy = 4, kCopyBytes = 16;
/// Of one scale read from global memory inside the loop: a 64-bit address in two instructions, the read.
constexpr double kSlotsPerScale = 3;
/// A spilled register is written and read once a k-block, through the same 128 bytes a cycle as shared
/// memory.
constexpr double kBytesPerSpill = 8;

/// Cycles of one k-block: of a CTA that is alone on its SM, and of the SM for each CTA where many share it.
struct KblockCycles {
  double alone = 0, shared = 0;
  KblockCost cost;  // what the tensor pipe does meanwhile
};

KblockCycles wgmma_kblock(const Hardware& hw, const TritonTile& t, double promotion, double copies) {
  const double each = wgmma_cycles(hw, t.wgmma_n);
  const double drain = std::max(hw.kblock_drain_cycles.at(t.wgmma_n) - 4 * each, 0.0);
  KblockCycles k;
  k.cost.instruction = double(t.wgmma_per_kblock) * each;
  k.cost.tensor_ideal = k.cost.tensor_busy = double(t.wgmma_per_kblock) * wgmma_ideal_cycles(hw, t.wgmma_n);
  k.alone = std::max(double(t.wgmma_chain) * each + drain, k.cost.instruction) + promotion + copies +
            hw.kblock_barrier_cycles;
  k.shared = std::max(k.cost.instruction, promotion + copies);
  k.cost.limit = Limit::tensor;
  return k;
}

/// One warp reads, converts and multiplies; the three overlap within it as in the microbenchmark of
/// conversions from shared memory, whose mma lay below them.
KblockCycles mma_kblock(const Hardware& hw, const TritonTile& t, double promotion, double copies) {
  const double warps = std::max(t.warps / kSchedulers, 1.0);  // a scheduler's
  const double mma = double(t.mma_per_warp) * warps, conversions = double(t.conversions) * warps;
  const double convert = conversions * hw.cvt_e4m3_cycles, tensor = mma * hw.mma_f16_cycles;
  const double read = double(t.fragment_bytes) / hw.shared_bytes_per_cycle;
  KblockCycles k;
  k.cost.instruction = std::max(tensor, convert);
  k.cost.tensor_busy = tensor;
  k.cost.tensor_ideal = mma * mma_ideal_cycles(hw);
  const double math = std::max(k.cost.instruction, read);
  k.alone = math + promotion + copies + hw.kblock_barrier_cycles;
  k.shared = std::max(math, mma + conversions + promotion + copies);
  k.cost.limit = tensor >= math ? Limit::tensor : read >= math ? Limit::shared_memory : Limit::issue;
  return k;
}

KblockCycles kblock_cycles(const Hardware& hw, const GemmShape& gemm, const TritonTile& t) {
  const double sums = double(gemm.tile.block_m) * gemm.tile.block_n;
  const double promotion = gemm.block_scales ? kPromotionOps * sums / hw.cvt_fma_per_cycle : 0;
  const double scales = kSlotsPerScale * double(t.scale_loads) * std::max(t.warps / kSchedulers, 1.0);
  const double spills =
      kBytesPerSpill * t.spilled * t.warps * sm90::kThreadsPerWarp / hw.shared_bytes_per_cycle;
  const double copies =
      kSlotsPerCopy * double(t.operand_bytes) / (kCopyBytes * sm90::kThreadsPerWarp * kSchedulers) + scales +
      spills;
  KblockCycles k = t.wgmma ? wgmma_kblock(hw, t, promotion, copies) : mma_kblock(hw, t, promotion, copies);
  k.cost.cycles = k.alone;
  k.cost.shared = t.wgmma ? double(t.wgmma_per_kblock) * sm90::kWgmmaK8bit * (sm90::kWgmmaM + t.wgmma_n) /
                                hw.shared_bytes_per_cycle
                          : double(t.fragment_bytes) / hw.shared_bytes_per_cycle;
  return k;
}

/// What the tiles of one expert move. Weights come from HBM for its first blocks. The next block finds them
/// in L2 where it is of the same group, where it starts so soon behind (its panels before it are fewer than
/// the places) that both read them at the same time, and where the expert's weights fit there. Tokens were
/// just written.
struct BlockTraffic {
  double capacity, output_to_hbm;
  std::int64_t slots;
  Traffic operator()(const GemmShape& gemm, std::int64_t block, std::int64_t rows,
                     std::int64_t columns) const {
    const double k = double(gemm.k), weights = double(columns) * k;
    const bool first = block == 0, same_group = block % std::max(gemm.tile.group_m, 1) != 0;
    const bool together = gemm.panels() * std::max(gemm.tile.group_m, 1) <= slots;
    const bool hit = !first && (same_group || together || double(gemm.n) * k <= capacity);
    Traffic t;
    (hit ? t.l2_read : t.hbm_read) = weights;
    t.l2_read += double(rows) * k;
    (output_to_hbm > 0 ? t.hbm_written : t.l2_written) = double(rows) * double(columns) * kOutputBytes;
    return t;
  }
};

std::vector<Wave> waves_of(const Hardware& hw, const GemmShape& gemm, const ExpertLoad& load,
                           std::int64_t slots) {
  const double output = double(load.total()) * double(gemm.n) * kOutputBytes;
  const BlockTraffic traffic{l2_capacity(hw), output > l2_capacity(hw) ? 1.0 : 0.0, slots};
  const std::int64_t m = gemm.tile.block_m, n = gemm.tile.block_n;
  const std::int64_t whole = gemm.n / n, rest = gemm.n % n;  // panels, columns of a last one
  Waves waves(slots);
  for (const std::int64_t rows : load.rows)
    for (std::int64_t block = 0; block < gemm.blocks(rows); ++block) {
      const std::int64_t here = std::min(m, rows - block * m);
      waves.add(whole, traffic(gemm, block, here, n));
      if (rest > 0) waves.add(1, traffic(gemm, block, here, rest));
    }
  return waves.take();
}

class Run {
 public:
  Run(const Hardware& hw, const GemmShape& gemm, const ExpertLoad& load)
      : hw_(hw),
        gemm_(gemm),
        tile_(triton_tile(gemm)),
        kblock_(kblock_cycles(hw, gemm, tile_)),
        waves_(waves_of(hw, gemm, load, std::int64_t(hw.sms) * tile_.ctas_per_sm)) {}

  const KblockCost& kblock() const { return kblock_.cost; }

  GemmTime at(double hz) const {
    GemmTime time;
    time.hz = hz;
    const double outputs =
        double(gemm_.tile.block_m) * gemm_.tile.block_n / (tile_.warps * sm90::kThreadsPerWarp);
    // A CTA's own: its block's number, expert and rows, one read behind the other; its sums as bf16.
    const double begin = 2 * hw_.l2_latency_s + hw_.hbm_latency_s;
    const double end = (hw_.epilogue_cycles + outputs * hw_.epilogue_cycles_per_output) / hz;
    for (const Wave& wave : waves_) add(time, wave, hz, begin, end);
    time.end = hw_.l2_latency_s;
    return time;
  }

 private:
  void add(GemmTime& time, const Wave& wave, double hz, double begin, double end) const {
    const double kblocks = double(gemm_.kblocks()), ahead = double(std::max(tile_.stages - 1, 1));
    const double active = std::min<double>(double(wave.tiles), hw_.sms), ctas = double(wave.tiles) / active;
    // mma.sync frees a buffer only when it has read it: its own time lies between a copy and the next.
    const double own = kblock_.alone / hz, held = tile_.wgmma ? 0 : own;
    const double step = std::max(own, (hw_.hbm_latency_s + held) / ahead);
    const double alone = begin + kblocks * step + end + hw_.cta_turnover_s;
    const double math = std::max(alone, ctas * kblocks * kblock_.shared / hz);
    const double loading = kblocks * step / alone;  // share of a CTA's life in which it has copies in flight
    const double flight = std::min(ahead, kblocks) * double(tile_.operand_bytes) / 1024;
    const double memory = std::max(
        memory_seconds(hw_, wave.traffic, active, ctas * flight * loading * (1 - held / (ahead * step))),
        ctas * kblocks * double(tile_.operand_bytes) / (hw_.fill_bytes_per_cycle * hz));
    const double seconds = soft_maximum(math, memory, hw_.overlap_exponent);
    time.add_waves(wave, math, memory, seconds, hw_.sms);
  }

  const Hardware& hw_;
  const GemmShape& gemm_;
  TritonTile tile_;
  KblockCycles kblock_;
  std::vector<Wave> waves_;
};

double tensor_active(const Hardware& hw, const GemmShape& gemm, const GemmTime& time) {
  const double busy = double(time.tiles) * double(gemm.kblocks()) * time.kblock.tensor_busy;
  return busy / (hw.sms * time.hz * time.seconds);
}

std::vector<Elementwise> both_quantised(const Problem& p, double rows, double columns, const char* name) {
  const double scales = p.quant.block() ? columns / kScaleBlock : 1;
  std::vector<Elementwise> kernels;
  if (p.quant.kind == QuantKind::tensor_dynamic) kernels.push_back({"amax", rows * columns * 2, 4});
  kernels.push_back({name, rows * columns * 2, rows * (columns + 4 * scales)});
  return kernels;
}

}  // namespace

std::vector<GemmShape> triton_gemm_shapes(const Problem& problem, const Choice& choice) {
  const MoeShape& s = problem.shape;
  const bool layer = problem.op == Op::moe_layer;
  if (!layer && problem.op != Op::grouped_gemm) return {};
  const char* alone = "grouped_gemm";
  const GemmShape up{layer ? "gemm1" : alone, s.up_rows(), s.hidden,
                     choice.layout,           choice.tile, problem.quant.block()};
  const GemmShape down{layer ? "gemm2" : alone,
                       s.hidden,
                       s.local_intermediate(),
                       choice.layout,
                       layer ? choice.tile_down : choice.tile,
                       problem.quant.block()};
  if (layer) return {up, down};
  return {problem.gemm == 1 ? up : down};
}

Counts triton_counts(const GemmShape& gemm, const ExpertLoad& load, std::int64_t pairs) {
  const TritonTile t = triton_tile(gemm);
  Counts counts;
  counts.ctas = most_blocks(pairs, int(load.rows.size()), gemm.tile.block_m) * gemm.panels();
  for (const std::int64_t rows : load.rows) counts.tiles += gemm.blocks(rows) * gemm.panels();
  const std::int64_t kblocks = counts.tiles * gemm.kblocks();
  if (t.wgmma && kblocks > 0) counts.wgmma[t.wgmma_n] = kblocks * t.wgmma_per_kblock;
  counts.mma = kblocks * t.mma_per_warp * t.warps;
  return counts;
}

GemmTime schedule_triton_gemm(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load,
                              std::int64_t pairs) {
  const Run run(hardware, gemm, load);
  const auto complete = [&](double hz) {
    GemmTime time = run.at(hz);
    if (time.tiles == 0) time.end = 0;
    time.seconds += time.end;
    time.grid = triton_counts(gemm, load, pairs).ctas;
    time.kblock = run.kblock();
    time.tensor_active = time.seconds > 0 ? tensor_active(hardware, gemm, time) : 0;
    return time;
  };
  GemmTime time = complete(settle_clock(hardware, [&](double hz) { return complete(hz).tensor_active; }));
  time.shared_bytes =
      double(time.tiles) * double(gemm.kblocks()) *
      (double(triton_tile(gemm).operand_bytes) + time.kblock.shared * hardware.shared_bytes_per_cycle);
  time.limit = time.math > time.memory                       ? time.kblock.limit
               : time.traffic.hbm() >= time.traffic.l2() / 2 ? Limit::hbm
                                                             : Limit::l2;
  return time;
}

std::vector<Elementwise> triton_before(const Problem& p) {
  if (p.op != Op::moe_layer) return {};
  const double pairs = double(p.shape.pairs());
  std::vector<Elementwise> kernels{{"count", pairs * 4, p.shape.experts * 4.0},
                                   {"place", pairs * 4, pairs * 4}};
  const auto codes = both_quantised(p, double(p.shape.tokens), double(p.shape.hidden), "quantize");
  kernels.insert(kernels.end(), codes.begin(), codes.end());
  return kernels;
}

std::vector<Elementwise> triton_between(const Problem& p, std::int64_t rows) {
  if (p.op != Op::moe_layer) return {};
  const double inner = double(p.shape.local_intermediate()), r = double(rows);
  std::vector<Elementwise> kernels{{"activate", r * double(p.shape.up_rows()) * 2, r * inner * 2}};
  const auto codes = both_quantised(p, r, inner, "act_quantize");
  kernels.insert(kernels.end(), codes.begin(), codes.end());
  return kernels;
}

std::vector<Elementwise> triton_behind(const Problem& p, std::int64_t rows) {
  if (p.op != Op::moe_layer) return {};
  const double width = double(p.shape.hidden) * 2;
  return {{"combine", double(rows) * width, double(p.shape.tokens) * width}};
}

}  // namespace moe::sim
