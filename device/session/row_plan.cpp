#include "device/session/row_plan.hpp"

#include <algorithm>

#include "device/planted/planted.hpp"
#include "device/session/device_rows.hpp"
#include "device/session/launches.hpp"

namespace moe::device {
namespace {

Address allocate_words(Machine& machine, std::int64_t count, const char* name) {
  return allocate(machine, 4 * count, BufferUse::workspace, name);
}

}  // namespace

RowPlan allocate_plan(Machine& machine, Address ids, std::int64_t pairs, std::int32_t first_expert,
                      std::int32_t experts, int block_m, int block_m_down, bool keep_pair_of_row) {
  RowPlan plan{pairs, planted(Fault::expert_offset_applied_twice, 2 * first_expert, first_expert), experts};
  plan.capacity = pairs + (kRowAlign - 1) * std::min<std::int64_t>(experts, pairs);
  if (planted(Fault::plan_sized_for_half_the_pairs)) plan.capacity /= 2;
  plan.block_m[0] = block_m;
  plan.block_m[1] = block_m_down;
  plan.ids = ids;
  plan.rows = allocate_words(machine, experts, "rows");
  plan.row_start = allocate_words(machine, experts + 1, "row_start");
  plan.block_start[0] = allocate_words(machine, experts + 1, "block_start");
  plan.block_start[1] = allocate_words(machine, experts + 1, "block_start_down");
  plan.row_of_pair = allocate_words(machine, pairs, "row_of_pair");
  if (keep_pair_of_row) plan.pair_of_row = allocate_words(machine, plan.capacity, "pair_of_row");
  return plan;
}

void launch_count(Machine& machine, const RowPlan& plan, bool dependent) {
  CountRowsParams p{};
  p.ids = pointer<std::int32_t>(plan.ids);
  p.rows = pointer<std::int32_t>(plan.rows);
  p.count = plan.pairs;
  p.first_expert = plan.first_expert;
  launch_count(machine, p, plan.experts, dependent);
}

void launch_place(Machine& machine, const RowPlan& plan, bool dependent) {
  PlaceRowsParams p{};
  p.ids = pointer<std::int32_t>(plan.ids);
  p.rows = pointer<std::int32_t>(plan.rows);
  if (!needs_count(plan.pairs)) p.counted_rows = pointer<std::int32_t>(plan.rows);
  p.count = plan.pairs;
  p.first_expert = plan.first_expert;
  p.experts = plan.experts;
  p.row_align = kRowAlign;
  p.padding = -1;
  p.row_start = pointer<std::int32_t>(plan.row_start);
  for (int g = 0; g < 2; ++g) {
    p.block_m[g] = plan.block_m[g];
    p.block_start[g] = pointer<std::int32_t>(plan.block_start[g]);
  }
  p.row_of_pair = pointer<std::int32_t>(plan.row_of_pair);
  p.pair_of_row = pointer<std::int32_t>(plan.pair_of_row);
  p.capacity = plan.capacity;
  launch_place(machine, p, dependent);
}

}  // namespace moe::device
