// Where does each pair lie in the expert-sorted rows? The device arrays of the plan and the kernel, or for
// many ids the two, that fill them from expert ids; nothing of it is read back before the GEMMs run.
#pragma once
#include <cstdint>

#include "device/kernels/place_rows_params.hpp"
#include "device/machine.hpp"

namespace moe::device {

struct RowPlan {
  std::int64_t pairs = 0;  // rows before sorting
  std::int32_t first_expert = 0, experts = 0;
  std::int64_t capacity = 0;         // most sorted rows, alignment of every expert to 8 included
  std::int32_t block_m[2] = {8, 8};  // of GEMM 1 and GEMM 2
  Address ids = 0;                   // i32 [pairs]
  Address rows = 0, row_start = 0;   // i32 [experts], [experts + 1]
  Address block_start[2] = {0, 0};   // i32 [experts + 1]
  Address row_of_pair = 0;           // i32 [pairs]
  Address pair_of_row = 0;           // i32 [capacity], -1 = no pair; 0 = not kept
};

/// Every expert's sorted rows start at a multiple of it (the grouped GEMM's contract).
inline constexpr int kRowAlign = 8;

RowPlan allocate_plan(Machine& machine, Address ids, std::int64_t pairs, std::int32_t first_expert,
                      std::int32_t experts, int block_m, int block_m_down, bool keep_pair_of_row);
/// Does launch_place of so many ids need launch_count in front of it?
constexpr bool needs_count(std::int64_t ids) { return ids > kRankedIds; }
void launch_count(Machine& machine, const RowPlan& plan, bool dependent);
void launch_place(Machine& machine, const RowPlan& plan, bool dependent);

}  // namespace moe::device
