// How many bytes does a stretch of tiles take from HBM and from L2, and how long do the memories need for
// them? Bytes and seconds. The launch starts with cold weights; L2 hits and HBM misses add in time, because
// every byte of a miss crosses L2 as well.
#pragma once
#include <cstdint>

#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/routing.hpp"
#include "sim/gemm_shape.hpp"
#include "sim/tiles.hpp"

namespace moe::sim {

struct Traffic {
  double hbm_read = 0;     // first touches
  double l2_read = 0;      // bytes that an earlier or a neighbouring tile has brought in
  double l2_written = 0;   // outputs
  double hbm_written = 0;  // outputs of a launch whose whole output exceeds what L2 keeps
  double hbm() const { return hbm_read + hbm_written; }
  double l2() const { return l2_read + l2_written; }
  Traffic& operator+=(const Traffic& other);
  bool operator==(const Traffic&) const = default;
};

/// Bytes of L2 that data shared by all SMs can count on: half, for each of Hopper's two L2 partitions keeps a
/// copy of what its SMs read.
double l2_capacity(const Hardware& hardware);

/// What each tile of a GEMM moves. Weight panel: from HBM for the expert's first token block, from L2 for the
/// blocks that follow it directly. Tokens of a block: the kernel before has just written them, so the first
/// panel finds them in L2 if all of them fit there; so do the next panels if the bytes in between (the
/// expert's tokens and one panel) fit. Gathered rows are the tokens' own, each once.
class TileTraffic {
 public:
  TileTraffic(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load);
  Traffic operator()(const Tile& tile) const;

 private:
  const GemmShape& gemm_;
  const ExpertLoad& load_;
  double capacity_;
  bool output_leaves_l2_;
};

/// Bytes/s of HBM when `sms` SMs keep `inflight_kb` KB each in flight, in blocks of contiguous bytes: the
/// measured curves, linear between them.
double hbm_bytes_per_s(const Hardware& hardware, double sms, double inflight_kb);

/// Seconds that `sms` SMs with `inflight_kb` KB each in flight need for `traffic` in boxes of 128-byte rows.
double memory_seconds(const Hardware& hardware, const Traffic& traffic, double sms, double inflight_kb);

}  // namespace moe::sim
