#include "sim/shared_accesses.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "fixtures/problem/sm90.hpp"
#include "sim/bank_conflicts.hpp"
#include "sim/instruction.hpp"
#include "sim/tiles.hpp"

namespace moe::sim {
namespace {

constexpr int kLanes = sm90::kThreadsPerWarp;
constexpr std::int64_t kBf16 = 2;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// One access of a warp whose lane l touches `width` bytes at byte(l).
template <class Byte>
SharedAccesses access(int width, Byte&& byte) {
  std::array<std::int64_t, kLanes> addresses;
  for (int lane = 0; lane < kLanes; ++lane) addresses[std::size_t(lane)] = byte(lane);
  return {shared_passes(addresses, width), bank_conflicts(addresses, width)};
}

/// The bisection of one warp after another. What a search costs hangs on its lanes' experts alone, and those
/// of neighbouring CTAs are mostly the same.
class Search {
 public:
  Search(const GemmShape& gemm, const ExpertLoad& load, std::int64_t ctas)
      : experts_(int(load.rows.size())), ctas_(ctas), first_tile_(load.rows.size() + 1) {
    for (int e = 0; e < experts_; ++e)
      first_tile_[std::size_t(e) + 1] =
          first_tile_[std::size_t(e)] + gemm.blocks(load.rows[std::size_t(e)]) * gemm.panels();
    path_.resize(std::size_t(experts_));
    for (int e = 0; e < experts_; ++e) path_[std::size_t(e)] = path_to(e);
  }

  /// Searches for tiles 32 * round .. + 31 of every CTA, by one warp of each.
  SharedAccesses round(std::int64_t round) {
    SharedAccesses sum;
    for (std::int64_t cta = 0; cta < ctas_; ++cta) {
      if (cta + kLanes * round * ctas_ > last_asked()) break;  // had its end in the round before
      if (find(cta, round) || cta == 0) last_ = cost();
      sum += last_;
    }
    return sum;
  }
  /// A CTA asks until it is told that there is no more: for one tile more than it has.
  std::int64_t rounds() const { return last_asked() / (kLanes * ctas_) + 1; }

 private:
  std::int64_t tiles() const { return first_tile_.back(); }
  /// Largest number that some CTA asks for.
  std::int64_t last_asked() const { return tiles() + ctas_ - 1; }

  /// Words that the bisection for expert e reads.
  std::vector<int> path_to(int expert) const {
    std::vector<int> words;
    for (int low = 0, high = experts_; high - low > 1;) {
      const int middle = (low + high) / 2;
      words.push_back(middle);
      (middle <= expert ? low : high) = middle;
    }
    return words;
  }

  /// The lanes' experts; false: the same as those of the search before.
  bool find(std::int64_t cta, std::int64_t round) {
    bool changed = cta == 0;
    int lanes = 0;
    for (; lanes < kLanes; ++lanes) {
      const std::int64_t tile = cta + (kLanes * round + lanes) * ctas_;
      if (tile >= tiles()) break;
      int& e = expert_[std::size_t(lanes)];
      if (cta == 0)
        e = int(std::upper_bound(first_tile_.begin(), first_tile_.end(), tile) - first_tile_.begin()) - 1;
      for (; tile >= first_tile_[std::size_t(e) + 1]; ++e) changed = true;
    }
    changed |= lanes != lanes_;
    lanes_ = lanes;
    return changed;
  }

  /// Distinct words of the busiest bank. Lanes' words ascend, as their tiles do, so that equal ones are
  /// neighbours.
  template <class Word>
  void read(SharedAccesses& sum, Word&& word) const {
    std::array<std::uint8_t, kSharedBanks> words{};
    int before = -1, most = 0;
    for (int lane = 0; lane < lanes_; ++lane) {
      const int w = word(expert_[std::size_t(lane)]);
      if (w < 0 || w == before) continue;
      before = w;
      most = std::max<int>(most, ++words[std::size_t(w % kSharedBanks)]);
    }
    sum.wavefronts += most;
    sum.conflicts += std::max(most - 1, 0);
  }

  SharedAccesses cost() const {
    SharedAccesses sum{1, 0};  // the number of blocks: one word for all
    if (lanes_ == 0) return sum;
    std::size_t steps = 0;
    for (int lane = 0; lane < lanes_; ++lane)
      steps = std::max(steps, path_[std::size_t(expert_[std::size_t(lane)])].size());
    for (std::size_t step = 0; step < steps; ++step)
      read(sum, [&](int e) {
        const auto& path = path_[std::size_t(e)];
        return step < path.size() ? path[step] : -1;
      });
    read(sum, [](int e) { return e; });
    read(sum, [](int e) { return e + 1; });
    return sum;
  }

  int experts_;
  std::int64_t ctas_;
  std::vector<std::int64_t> first_tile_;  // of each expert, and behind the last
  std::vector<std::vector<int>> path_;
  std::array<int, kLanes> expert_{};
  int lanes_ = -1;  // that have a tile
  SharedAccesses last_;
};

SharedAccesses searches(const GemmShape& gemm, const ExpertLoad& load, std::int64_t ctas, int early) {
  const int warps = gemm.math_warps() + 1;
  Search search(gemm, load, ctas);
  SharedAccesses sum;
  for (std::int64_t round = 0; round < search.rounds(); ++round)
    sum += search.round(round) * (warps + (round == 0 && early > 0));
  return sum;
}

/// Tokens' scales: a thread's accumulators lie along the tokens in swap_ab, and in two rows of a fragment
/// else.
SharedAccesses scale_reads(const GemmShape& gemm) {
  if (!gemm.block_scales) return {};
  if (gemm.layout == Layout::swap_ab)
    return access(4, [](int lane) { return 4 * (2 * (lane % 4)); }) * (gemm.tile.block_m / 4);
  const int fragments = gemm.layout == Layout::normal_mma ? gemm.tile.block_m / sm90::kMmaM : 1;
  return access(4, [](int lane) { return 4 * (lane / 4); }) * (2 * fragments);
}

/// Of one warp and k-block.
SharedAccesses kblock_reads(const GemmShape& gemm) {
  SharedAccesses sum = scale_reads(gemm);
  if (gemm.layout != Layout::normal_mma) return sum;
  const int steps = gemm.tile.block_k / sm90::kMmaK;
  const std::int64_t pieces =
      kblock_instructions(gemm).shared_loads / gemm.math_warps() / steps;  // of 8 rows
  for (int step = 0; step < steps; ++step)
    sum += access(4, [&](int lane) { return swizzled(lane / 4, 16 * step + 4 * (lane % 4)); }) * pieces;
  return sum;
}

/// A math warp's stores of a tile's values: pairs along the columns, or in swap_ab, whose pairs lie along the
/// tokens, each value by itself. Fragments lie whole patch rows or 16 bytes apart, which moves all banks
/// alike.
SharedAccesses patch_stores(const GemmShape& gemm) {
  const bool mma = gemm.layout == Layout::normal_mma;
  const std::int64_t columns = mma ? gemm.tile.block_n : 64, pitch = columns * kBf16 + 16;
  const std::int64_t values =
      std::int64_t(gemm.tile.block_m) * gemm.tile.block_n / (gemm.math_warps() * kLanes);  // of a thread
  if (gemm.layout == Layout::swap_ab)
    return access(4, [&](int lane) { return (2 * (lane % 4) * pitch + lane / 4 * kBf16) / 4 * 4; }) * values;
  return access(4, [&](int lane) { return lane / 4 * pitch + 2 * (lane % 4) * kBf16; }) * (values / 2);
}

/// Reads of the patches for all rows that exist: a quarter of a warp copies 64 columns at once, or a warp 32.
SharedAccesses patch_reads(const GemmShape& gemm, const ExpertLoad& load) {
  const bool wide = gemm.n % 8 == 0;
  return SharedAccesses{1, 0} * (load.total() * ceil_div(gemm.n, wide ? 64 : 32));
}

}  // namespace

SharedAccesses& SharedAccesses::operator+=(const SharedAccesses& other) {
  wavefronts += other.wavefronts;
  conflicts += other.conflicts;
  return *this;
}

SharedAccesses shared_accesses(const GemmShape& gemm, const ExpertLoad& load, std::int64_t ctas,
                               int early_kblocks) {
  if (ctas <= 0) return {};
  const std::int64_t tiles = tile_count(gemm, load), warps = gemm.math_warps();
  SharedAccesses sum = SharedAccesses{ceil_div(std::int64_t(load.rows.size()) + 1, kLanes), 0} * ctas;
  sum += searches(gemm, load, ctas, early_kblocks);
  sum += kblock_reads(gemm) * (tiles * gemm.kblocks() * warps);
  sum += patch_stores(gemm) * (tiles * warps);
  sum += patch_reads(gemm, load);
  return sum;
}

}  // namespace moe::sim
