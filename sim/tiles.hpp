// Which output tiles does a grouped GEMM compute, in which order, and which CTA computes which? Written from
// the contract of the persistent kernel, not from its code: the list holds the experts in ascending order;
// inside an expert the panels of 128 weight rows, and for each panel all blocks of block_m tokens; CTA c of g
// computes tiles c, c + g, ...
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fixtures/problem/routing.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

struct Tile {
  int expert = 0;
  std::int64_t panel = 0, block = 0;   // of the weight rows, of the expert's tokens
  std::int64_t rows = 0, columns = 0;  // that exist: 1..block_m tokens, 1..block_n outputs
  bool operator==(const Tile&) const = default;
};

/// Number of tiles, in closed form.
std::int64_t tile_count(const GemmShape& gemm, const ExpertLoad& load);

/// Calls visit(const Tile&) for each tile of the list, in order.
template <class Visit>
void for_each_tile(const GemmShape& gemm, const ExpertLoad& load, Visit&& visit) {
  const std::int64_t panels = gemm.panels(), m = gemm.tile.block_m, n = gemm.tile.block_n;
  for (int expert = 0; expert < int(load.rows.size()); ++expert) {
    const std::int64_t rows = load.rows[expert], blocks = gemm.blocks(rows);
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t columns = std::min(n, gemm.n - panel * n);
      for (std::int64_t block = 0; block < blocks; ++block) {
        visit(Tile{expert, panel, block, std::min(m, rows - block * m), columns});
      }
    }
  }
}

/// CTAs of the launch: it may not wait for the row counts, so the grid covers the most tiles that `pairs`
/// rows can need.
std::int64_t grid_size(const GemmShape& gemm, std::int64_t pairs, int experts, int sms);

/// The tiles of CTA `cta` of `grid`, in its order.
std::vector<Tile> tiles_of_cta(const GemmShape& gemm, const ExpertLoad& load, std::int64_t cta,
                               std::int64_t grid);

}  // namespace moe::sim
