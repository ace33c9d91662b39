// Which grouped GEMMs does a problem contain, and in which tile does a choice run each? Sizes are elements;
// one code is one byte.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/problem.hpp"

namespace moe::sim {

/// One persistent grouped GEMM: out[row][n] = sum over k of tokens[row][k] * weights[expert of row][n][k].
struct GemmShape {
  std::string name;  // "gemm1", "gemm2" or "grouped_gemm"
  std::int64_t n = 0, k = 0;
  Layout layout = Layout::swap_ab;
  TileConfig tile;  // resolved
  bool block_scales = false;
  std::int64_t gathered_from = 0;  // unsorted rows that it fetches one by one; 0 = sorted rows in one box

  std::int64_t panels() const { return (n + tile.block_n - 1) / tile.block_n; }
  std::int64_t kblocks() const { return (k + tile.block_k - 1) / tile.block_k; }
  std::int64_t blocks(std::int64_t rows) const { return (rows + tile.block_m - 1) / tile.block_m; }

  /// k-blocks in flight: the tile's own, else 8 up to 64 tokens and 6 above (227 KB hold no more beside the
  /// output), and of tiles of 64 weight rows 12 for 64 tokens, else 16.
  int stages() const;
  /// Bytes that TMA writes to shared memory for one k-block: whole boxes of weights and tokens, and with
  /// block scales one bulk load of block_m scales of the tokens.
  std::int64_t load_bytes() const;
  int loads() const { return (block_scales ? 2 : 1) + (gathered_from > 0 ? tile.block_m : 1); }
  /// A warpgroup keeps a second k-block in flight where its accumulators and scales leave room (swap_ab up to
  /// 16 tokens, normal_wgmma with N = 64) and the chain is long enough.
  bool two_in_flight() const;
  /// Warps that do the math: a warpgroup for each 64 weight rows (128 tokens: for each 64 tokens), or four
  /// warps of normal_mma.
  int math_warps() const { return layout == Layout::normal_mma || tile.block_n == 64 ? 4 : 8; }
};

/// The GEMMs of grouped_gemm (one) or of moe_layer (two, gemm1 first); none for other ops. `choice` has
/// resolved tiles. Throws BadInput for a tile that the layout cannot run.
std::vector<GemmShape> gemm_shapes(const Problem& problem, const Choice& choice);

}  // namespace moe::sim
