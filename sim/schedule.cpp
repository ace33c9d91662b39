#include "sim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/clock.hpp"
#include "sim/instruction.hpp"
#include "sim/tiles.hpp"

namespace moe::sim {
namespace {

/// Tiles in the order of for_each_tile, in runs that move the same: of each panel the expert's first block,
/// the whole ones behind it and the last.
std::vector<Wave> make_waves(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load,
                             std::int64_t grid) {
  const TileTraffic traffic(hardware, gemm, load);
  const std::int64_t m = gemm.tile.block_m, n = gemm.tile.block_n;
  Waves waves(grid);
  for (int expert = 0; expert < int(load.rows.size()); ++expert) {
    const std::int64_t rows = load.rows[expert], blocks = gemm.blocks(rows);
    for (std::int64_t panel = 0; blocks > 0 && panel < gemm.panels(); ++panel) {
      Tile tile{expert, panel, 0, std::min(m, rows), std::min(n, gemm.n - panel * n)};
      waves.add(1, traffic(tile));
      tile.block = 1;
      if (blocks > 2) waves.add(blocks - 2, traffic(tile));
      tile.block = blocks - 1;
      tile.rows = rows - tile.block * m;
      if (blocks > 1) waves.add(1, traffic(tile));
    }
  }
  return waves.take();
}

std::int64_t wave_count(const std::vector<Wave>& waves) {
  std::int64_t count = 0;
  for (const Wave& wave : waves) count += wave.count;
  return count;
}

/// KB that one SM has asked for and not yet received: the ring without the stage in use.
double inflight_kb(const GemmShape& gemm, std::int64_t tiles_per_cta) {
  const std::int64_t kblocks = tiles_per_cta * gemm.kblocks();
  const std::int64_t stages =
      std::clamp<std::int64_t>(gemm.stages() - 1, 1, std::max<std::int64_t>(kblocks, 1));
  return double(stages * gemm.load_bytes()) / 1024;
}

class Run {
 public:
  Run(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load, std::int64_t grid)
      : hardware_(hardware),
        gemm_(gemm),
        grid_(grid),
        waves_(make_waves(hardware, gemm, load, grid)),
        kblock_(kblock_cost(hardware, gemm)),
        epilogue_(epilogue_cycles(hardware, gemm)),
        inflight_(inflight_kb(gemm, wave_count(waves_))) {}

  const KblockCost& kblock() const { return kblock_; }

  GemmTime at(double hz) const {
    GemmTime time;
    time.hz = hz;
    const double kblocks = double(gemm_.kblocks());
    const double math = (kblocks * kblock_.cycles + epilogue_) / hz;
    const double fill = kblocks * double(gemm_.load_bytes()) / (hardware_.fill_bytes_per_cycle * hz);
    const auto add = [&](Wave wave, std::int64_t count, double own) {
      const double memory =
          std::max(fill, memory_seconds(hardware_, wave.traffic, double(wave.tiles), inflight_));
      wave.count = count;
      time.add_waves(wave, own, memory, soft_maximum(own, memory, hardware_.overlap_exponent), hardware_.sms);
    };
    for (const Wave& wave : waves_) {
      const bool last = &wave == &waves_.back();
      if (wave.count > last) add(wave, wave.count - last, math);
      if (last) add(wave, 1, math - epilogue_ / hz);  // the last epilogue is counted as the end
    }
    time.end = (kblock_.cycles + epilogue_) / hz + hardware_.l2_latency_s;
    return time;
  }

 private:
  const Hardware& hardware_;
  const GemmShape& gemm_;
  std::int64_t grid_;
  std::vector<Wave> waves_;
  KblockCost kblock_;
  double epilogue_, inflight_;
};

double tensor_active(const Hardware& hardware, const GemmShape& gemm, const GemmTime& time) {
  const double busy = double(time.tiles) * double(gemm.kblocks()) * time.kblock.tensor_busy;
  return busy / (hardware.sms * time.hz * time.seconds);
}

Limit limit_of(const GemmTime& time) {
  const double waves = time.seconds - time.start - time.end;
  if (waves < time.start + time.end) return Limit::latency;
  if (time.math > time.memory) return time.kblock.limit;
  return time.traffic.hbm() >= time.traffic.l2() / 2 ? Limit::hbm : Limit::l2;
}

}  // namespace

void GemmTime::add_waves(const Wave& wave, double math_s, double memory_s, double wave_s, int sms) {
  const double n = double(wave.count);
  math += n * math_s;
  memory += n * memory_s;
  seconds += n * wave_s;
  tiles += wave.count * wave.tiles;
  const Traffic& t = wave.traffic;
  traffic += {n * t.hbm_read, n * t.l2_read, n * t.l2_written, n * t.hbm_written};
  if (wave.tiles < sms) tail += n * wave_s;
}

double soft_maximum(double math, double memory, double p) {
  const double larger = std::max(math, memory), smaller = std::min(math, memory);
  if (larger <= 0) return 0;
  if (p == 8) {  // the cards' exponent: a launch of small tiles has thousands of waves, and pow is most of
                 // their cost
    const double r2 = (smaller / larger) * (smaller / larger), r4 = r2 * r2;
    return larger * std::sqrt(std::sqrt(std::sqrt(1 + r4 * r4)));
  }
  return larger * std::pow(1 + std::pow(smaller / larger, p), 1 / p);
}

GemmTime schedule_gemm(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load,
                       std::int64_t pairs) {
  const std::int64_t grid = grid_size(gemm, pairs, int(load.rows.size()), hardware.sms);
  if (grid == 0) return {};
  const Run run(hardware, gemm, load, grid);
  const auto complete = [&](double hz) {
    GemmTime time = run.at(hz);
    time.start = hardware.prologue_s + (time.tiles > 0 ? hardware.hbm_latency_s : 0);
    if (time.tiles == 0) time.end = 0;
    time.seconds += time.start + time.end;
    time.grid = grid;
    time.kblock = run.kblock();
    time.tensor_active = tensor_active(hardware, gemm, time);
    return time;
  };
  const double hz = settle_clock(hardware, [&](double clock) { return complete(clock).tensor_active; });
  GemmTime time = complete(hz);
  time.shared_bytes = double(time.tiles) * double(gemm.kblocks()) *
                      (double(gemm.load_bytes()) + time.kblock.shared * hardware.shared_bytes_per_cycle);
  time.limit = limit_of(time);
  return time;
}

}  // namespace moe::sim
