#include "sim/memory.hpp"

#include <algorithm>

namespace moe::sim {
namespace {

/// Depths of the two curves over the number of SMs (fixtures/problem/hardware.hpp).
constexpr double kShallowKb = 64, kDeepKb = 192;
constexpr double kOutputBytes = 2;  // bf16

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  hbm_read += other.hbm_read;
  l2_read += other.l2_read;
  l2_written += other.l2_written;
  hbm_written += other.hbm_written;
  return *this;
}

double l2_capacity(const Hardware& hardware) { return hardware.l2_bytes / 2; }

TileTraffic::TileTraffic(const Hardware& hardware, const GemmShape& gemm, const ExpertLoad& load)
    : gemm_(gemm), load_(load), capacity_(l2_capacity(hardware)) {
  const double output = double(load.total()) * double(gemm.n) * kOutputBytes;
  output_leaves_l2_ = output > capacity_;
}

Traffic TileTraffic::operator()(const Tile& tile) const {
  Traffic traffic;
  const double k = double(gemm_.k);
  const double weights = double(tile.columns) * k, tokens = double(tile.rows) * k;
  (tile.block == 0 ? traffic.hbm_read : traffic.l2_read) += weights;
  const double between = (double(load_.rows[tile.expert]) + double(gemm_.tile.block_n)) * k;
  const double all = gemm_.gathered_from > 0 ? double(gemm_.gathered_from) : double(load_.total());
  bool hit = tile.panel == 0 ? all * k <= capacity_ : between <= capacity_;
  if (gemm_.gathered_from > 0 && all * k <= capacity_) hit = true;
  (hit ? traffic.l2_read : traffic.hbm_read) += tokens;
  const double output = double(tile.rows) * double(tile.columns) * kOutputBytes;
  (output_leaves_l2_ ? traffic.hbm_written : traffic.l2_written) += output;
  return traffic;
}

double hbm_bytes_per_s(const Hardware& hardware, double sms, double inflight_kb) {
  const double shallow = hardware.hbm_bytes_per_s_by_sms_shallow.at(sms);
  if (inflight_kb <= kShallowKb) {
    return std::min(shallow, hardware.hbm_bytes_per_s_by_inflight.at(inflight_kb * sms / hardware.sms));
  }
  const double deep = hardware.hbm_bytes_per_s_by_sms.at(sms);
  const double share = std::min(1.0, (inflight_kb - kShallowKb) / (kDeepKb - kShallowKb));
  return shallow + share * (deep - shallow);
}

double memory_seconds(const Hardware& hardware, const Traffic& traffic, double sms, double inflight_kb) {
  const double hbm = hbm_bytes_per_s(hardware, sms, inflight_kb);
  return traffic.hbm_read / (hbm * hardware.hbm_box_fraction) +
         traffic.l2_read / hardware.l2_shared_bytes_per_s +
         traffic.l2_written / hardware.l2_write_bytes_per_s + traffic.hbm_written / hardware.copy_bytes_per_s;
}

}  // namespace moe::sim
