// Contract: from the ids and rows[e], where each local pair lies in the expert-sorted order: experts
// ascending, pairs ascending inside an expert, every expert's first row a multiple of row_align. grid = local
// experts, 32..1024 threads, kPlaceWords words of dynamic shared memory. With row_align = block_m and
// padding = pairs it writes vLLM's moe_align_block_size outputs (sorted_token_ids = pair_of_row, expert_ids =
// expert_of_block). Up to kRankedIds ids it counts rows[e] itself (RankedIds), which saves a launch. Plan of
// more: 1. each CTA sums up the rows of the experts in front of its own (no second kernel
// for a prefix sum);
//       2. each warp counts the matches in its own contiguous share of the ids, so that it knows where to
//       start;
//       3. it scans the share again, 128 ids a step, four ballots giving each match its rank;
//       4. the first CTA marks pairs of no local expert, each CTA fills its padding, the last one what
//       follows.
// Every output word has exactly one writer; nothing needs to be cleared before.
#pragma once
#include "device/hopper/hopper.hpp"
#include "device/kernels/count_rows.cuh"
#include "device/kernels/place_rows_params.hpp"
#include "device/kernels/warp_sums.cuh"
#include "device/planted/planted.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  __device__ __forceinline__ std::uint32_t round_up_to(std::uint32_t value, std::uint32_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  /// Tiles of GEMM g for an expert's rows.
  __device__ __forceinline__ std::uint32_t blocks_of_rows(const PlaceRowsParams& p, int g,
                                                          std::uint32_t rows) {
    if (planted(Fault::empty_expert_takes_a_tile) && rows == 0) return 1;
    return (rows + std::uint32_t(p.block_m[g]) - 1) / std::uint32_t(p.block_m[g]);
  }

  /// What the experts in front of the CTA's own take: rows and blocks of both GEMMs.
  struct Before {
    std::uint32_t rows, blocks[2];
  };

  __device__ __forceinline__ Before rows_before(const PlaceRowsParams& p, std::uint32_t* scratch) {
    Before mine{0, {0, 0}};
    for (unsigned e = threadIdx.x; e < blockIdx.x; e += blockDim.x) {
      const auto rows = std::uint32_t(p.rows[e]);
      mine.rows += round_up_to(rows, std::uint32_t(p.row_align));
      for (int g = 0; g < 2; ++g) mine.blocks[g] += blocks_of_rows(p, g, rows);
    }
    return Before{
        cta_sum(mine.rows, scratch),
        {cta_sum(mine.blocks[0], scratch + kMaxWarps), cta_sum(mine.blocks[1], scratch + 2 * kMaxWarps)}};
  }

  __device__ __forceinline__ void write_starts(const PlaceRowsParams& p, unsigned e, const Before& before) {
    p.row_start[e] = std::int32_t(before.rows);
    for (int g = 0; g < 2; ++g) {
      if (p.block_start[g] != nullptr) p.block_start[g][e] = std::int32_t(before.blocks[g]);
    }
    if (p.padded_rows != nullptr && e == unsigned(p.experts)) *p.padded_rows = std::int32_t(before.rows);
  }

  /// Scans vectors [first, last) of the ids in order and writes every match; `row` is the sorted row of the
  /// first one.
  __device__ __forceinline__ void place_matches(const PlaceRowsParams& p, std::int64_t first,
                                                std::int64_t last, std::uint32_t row) {
    const std::uint32_t expert = std::uint32_t(p.first_expert) + blockIdx.x;
    const unsigned lane = threadIdx.x % 32;
    const std::uint32_t lanes_before =
        planted(Fault::rows_placed_backwards, ~((2u << lane) - 1u), (1u << lane) - 1u);
    for (std::int64_t step = first; step < last;
         step += 32) {  // uniform in the warp: the ballots need every lane
      const std::int64_t index = step + lane;
      const uint4 raw = index < last ? load_ids(p.ids, index, p.count) : uint4{~0u, ~0u, ~0u, ~0u};
      const std::uint32_t ids[4] = {raw.x, raw.y, raw.z, raw.w};
      if (planted(Fault::ballot_left_by_lanes) && index >= last) break;
      std::uint32_t rank = 0, total = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t votes = hopper::ballot(is_match(ids[j], expert));
        rank += std::uint32_t(hopper::popc(votes & lanes_before));
        total += std::uint32_t(hopper::popc(votes));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t pair = 4 * index + j;
        if (index >= last || pair >= p.count) continue;
        if (is_match(ids[j], expert)) {
          if (p.row_of_pair != nullptr) p.row_of_pair[pair] = std::int32_t(row + rank);
          if (p.pair_of_row != nullptr) p.pair_of_row[row + rank] = std::int32_t(pair);
          ++rank;
        } else if ((blockIdx.x == 0 || planted(Fault::every_cta_marks_foreign_pairs)) &&
                   p.row_of_pair != nullptr &&
                   ids[j] - std::uint32_t(p.first_expert) >= std::uint32_t(p.experts)) {
          p.row_of_pair[pair] = -1;
        }
      }
      row += total;
    }
  }

  /// What follows the CTA's own rows: padding, the names of its blocks, and behind the last expert the ends.
  __device__ __forceinline__ void finish_plan(const PlaceRowsParams& p, const Before& before,
                                              std::uint32_t rows) {
    const unsigned e = blockIdx.x;
    const std::uint32_t end = before.rows + round_up_to(rows, std::uint32_t(p.row_align));
    const bool last_expert = e + 1 == unsigned(p.experts);
    if (p.pair_of_row != nullptr) {
      const std::int64_t fill_end =
          last_expert ? p.capacity + planted(Fault::padding_filled_past_end, 1, 0) : std::int64_t(end);
      for (std::int64_t r = before.rows + rows + threadIdx.x; r < fill_end; r += blockDim.x)
        p.pair_of_row[r] = p.padding;
    }
    Before after{end, {}};
    for (int g = 0; g < 2; ++g) {
      after.blocks[g] = before.blocks[g] + blocks_of_rows(p, g, rows);
    }
    if (p.expert_of_block != nullptr) {
      const std::int64_t fill_end = last_expert ? p.blocks : std::int64_t(after.blocks[0]);
      for (std::int64_t b = before.blocks[0] + threadIdx.x; b < fill_end; b += blockDim.x) {
        const std::uint32_t named = std::uint32_t(p.first_expert) + e - std::uint32_t(p.named_first);
        const bool has_name = b < after.blocks[0] && named < std::uint32_t(p.named_experts);
        p.expert_of_block[b] =
            has_name ? std::int32_t(named) : planted(Fault::padding_blocks_name_expert_0, 0, -1);
      }
    }
    if (last_expert && threadIdx.x == 0) write_starts(p, e + 1, after);
  }

  /// The plan of few ids without count_rows: every CTA ranks the ids itself, from shared memory. A pair whose
  /// rank among those of its expert is a multiple of row_align opens that many rows, one whose rank is a
  /// multiple of block_m a block; what the experts in front open is where the CTA's own begin.
  struct RankedIds {
    std::uint32_t* local;  // [kRankedIds] local expert of a pair, past the last expert where it has none
    std::uint32_t* rank;   // [kRankedIds] rank of the CTA's own pairs
    std::int32_t count;

    __device__ __forceinline__ std::uint32_t rank_of(int pair) const {
      const std::uint32_t own = local[pair];
      std::uint32_t found = 0;
#pragma unroll 4
      for (int i = 0; i < pair / 4; ++i) found += matches(reinterpret_cast<const uint4*>(local)[i], own);
      for (int i = pair / 4 * 4; i < pair; ++i) found += std::uint32_t(local[i] == own);
      return found;
    }
    /// Rows in front of expert e and its own; all threads call it.
    __device__ __forceinline__ Before count_rows(const PlaceRowsParams& p, unsigned e, std::uint32_t& rows,
                                                 std::uint32_t* scratch) const {
      std::uint32_t starts = 0, blocks = 0;  // two sums in a word: none exceeds kRankedIds
      for (int pair = int(threadIdx.x); pair < count; pair += int(blockDim.x)) {
        if (local[pair] > e) continue;
        const std::uint32_t r = rank_of(pair);
        if (local[pair] == e) {
          rank[pair] = r;
          starts += 0x10000u;
        } else {
          starts += std::uint32_t(r % std::uint32_t(p.row_align) == 0);
          blocks += std::uint32_t(r % std::uint32_t(p.block_m[0]) == 0);
          blocks += std::uint32_t(r % std::uint32_t(p.block_m[1]) == 0) << 16;
        }
      }
      starts = cta_sum(starts, scratch);
      blocks = cta_sum(blocks, scratch + kMaxWarps);
      rows = starts >> 16;
      return {(starts & 0xFFFFu) * std::uint32_t(p.row_align), {blocks & 0xFFFFu, blocks >> 16}};
    }
    __device__ __forceinline__ void place(const PlaceRowsParams& p, unsigned e,
                                          std::uint32_t first_row) const {
      for (int pair = int(threadIdx.x); pair < count; pair += int(blockDim.x)) {
        if (local[pair] == e) {
          const std::uint32_t row = first_row + rank[pair];
          if (p.row_of_pair != nullptr) p.row_of_pair[pair] = std::int32_t(row);
          if (p.pair_of_row != nullptr) p.pair_of_row[row] = std::int32_t(pair);
        } else if ((e == 0 || planted(Fault::every_cta_marks_foreign_pairs)) && p.row_of_pair != nullptr &&
                   local[pair] >= std::uint32_t(p.experts)) {
          p.row_of_pair[pair] = -1;
        }
      }
    }
  };

  __device__ __forceinline__ void place_ranked(const PlaceRowsParams& p, std::uint32_t* scratch) {
    const RankedIds ids{scratch + 2 * kMaxWarps, scratch + 2 * kMaxWarps + kRankedIds, std::int32_t(p.count)};
    for (int i = int(threadIdx.x); i < (ids.count + 3) / 4 * 4; i += int(blockDim.x))
      ids.local[i] = i < ids.count ? std::uint32_t(p.ids[i]) - std::uint32_t(p.first_expert) : ~0u;
    if (!planted(Fault::ids_ranked_before_barrier)) hopper::cta_sync();
    std::uint32_t rows = 0;
    const Before before = ids.count_rows(p, blockIdx.x, rows, scratch);
    if (threadIdx.x == 0) {
      p.counted_rows[blockIdx.x] = std::int32_t(rows);
      write_starts(p, blockIdx.x, before);
    }
    ids.place(p, blockIdx.x, before.rows);
    finish_plan(p, before, rows);
  }

  /// The plan of many ids, whose rows count_rows has counted.
  __device__ __forceinline__ void place_scanned(const PlaceRowsParams& p, std::uint32_t* scratch) {
    const unsigned e = blockIdx.x, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const Before before = rows_before(p, scratch);
    const auto rows = std::uint32_t(p.rows[e]);
    if (threadIdx.x == 0) write_starts(p, e, before);

    const std::int64_t vectors = (p.count + 3) / 4;
    const std::int64_t share = (vectors + warps - 1) / warps, first = std::int64_t(warp) * share;
    const std::int64_t last = first + share < vectors ? first + share : vectors;
    std::uint32_t start = before.rows;
    if (warps > 1) {
      std::uint32_t found = 0;
#pragma unroll 4
      for (std::int64_t i = first + threadIdx.x % 32; i < last; i += 32) {
        found += matches(load_ids(p.ids, i, p.count), std::uint32_t(p.first_expert) + e);
      }
      found = warp_sum(found);
      hopper::cta_sync();
      if (threadIdx.x % 32 == 0) scratch[warp] = found;
      if (!planted(Fault::starts_read_before_barrier)) hopper::cta_sync();
      for (unsigned w = 0; w < warp; ++w) start += scratch[w];
    }
    place_matches(p, first, last, start);
    finish_plan(p, before, rows);
  }

  struct PlaceRows {
    using Params = PlaceRowsParams;
    static __device__ __forceinline__ void run(const Params& p) {
      auto* scratch = reinterpret_cast<std::uint32_t*>(hopper::dynamic_smem());
      hopper::grid_wait();
      hopper::grid_launch_dependents();
      if (p.counted_rows != nullptr)
        place_ranked(p, scratch);
      else
        place_scanned(p, scratch);
    }
  };

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
