// How often do the ordinary loads and stores of a persistent grouped GEMM keep shared memory busy? Wavefronts
// of warp instructions, and those beyond the least (bank conflicts), as Nsight Compute counts them
// (smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}; memory_l1_wavefronts_shared less its
// _ideal). Waits on mbarriers, TMA's writes and wgmma's reads of swizzled operands are not among them; the
// latter two have no conflicts. Written from the contract of the kernels, not from their code:
//   start      all threads copy the table of block starts (experts + 1 words)
//   search     each math warp and the producer find their CTA's tiles 32 at a time, lane i tile i, by
//   bisection
//              in that table: lanes read different words of it, which is where all conflicts come from
//   k-block    scales of the tokens; normal_mma also its fragments of swizzled tiles, 4 bytes a lane
//   epilogue   bf16 values into a patch whose rows are padded by 16 bytes; out of it only rows and columns
//   that
//              exist, 16 bytes a lane, or 2 where rows of the output are not whole 16-byte pieces
#pragma once
#include <cstdint>

#include "fixtures/problem/routing.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

struct SharedAccesses {
  std::int64_t wavefronts = 0, conflicts = 0;
  SharedAccesses& operator+=(const SharedAccesses& other);
  SharedAccesses operator*(std::int64_t times) const { return {wavefronts * times, conflicts * times}; }
  bool operator==(const SharedAccesses&) const = default;
};

/// k-blocks whose weights a CTA of the built-in layer asks for before the kernel in front has ended; with
/// any, the producer searches its first tiles twice.
inline constexpr int kEarlyKblocks = 4;

/// Of a launch of `ctas` CTAs; the output's rows lie n elements apart.
SharedAccesses shared_accesses(const GemmShape& gemm, const ExpertLoad& load, std::int64_t ctas,
                               int early_kblocks = kEarlyKblocks);

}  // namespace moe::sim
