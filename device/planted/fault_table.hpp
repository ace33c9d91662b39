// What does each planted fault do, which smallest case shows it, and by which sentence? One line a fault, in
// the order of Fault. Host only. Ids M.. are those of the catalogue of known bugs of such kernels, P.. protocol
// faults, V.. other wrong values.
#pragma once
#include <string_view>

#include "device/planted/faults.hpp"
#include "device/planted/wgmma_faults.hpp"

namespace moe::device {

enum class FaultKind {
  protocol,    // who may touch what when: the checker must say it in one deterministic run
  generation,  // the same, but only some orders show it: it changes which barrier generation is joined
  bounds,      // memory that is not the kernel's: the checker must say it too
  value,       // a wrong number: outputs or counts differ from the right kernel's
  host,        // wrong launch, size or pointer: a refusal, a sentence or a wrong number
};

/// What is done to the inputs that the case draws.
enum class InputEdit { none, nan_logits, negative_logits, equal_logits, zero_block, tiny_block, large_block, foreign_rows,
                       cancelling_rows };

struct FaultInfo {
  Fault fault;
  std::string_view id, name;
  FaultKind kind;
  std::string_view sentence;  // check id that a deterministic run must report; empty: wrong output is enough
  std::string_view what;
  std::string_view trigger;  // a Case line
  InputEdit edit = InputEdit::none;
  bool card_only = false;  // the emulated SM cannot show it; `what` says why
  bool heavy = false;      // a second a run: two seeds are enough
};

// ---- minimal triggers
#define MOE_GEMM "op=grouped_gemm contract=offsets top_k=2 load=uniform seed=1 "
#define MOE_LAYER "op=moe_layer load=uniform seed=1 "
/// Two experts of a full and a ragged tile, more stages used than the ring has; block scales.
inline constexpr std::string_view kRing =
    MOE_GEMM "tokens=20 hidden=640 inter=128 experts=2 quant=block128 layout=swap_ab tile=16x128x128";
/// So many k-blocks that two are in flight.
inline constexpr std::string_view kLong =
    MOE_GEMM "tokens=9 hidden=1152 inter=128 experts=2 quant=block128 layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kFlat =
    MOE_GEMM "tokens=20 hidden=640 inter=128 experts=2 quant=token_channel layout=swap_ab tile=16x128x128";
/// A tail in K and one in N.
inline constexpr std::string_view kTails =
    MOE_GEMM "tokens=9 hidden=400 inter=96 experts=2 quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kBias =
    MOE_GEMM "tokens=9 hidden=384 inter=96 experts=2 bias=1 quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kMma =
    MOE_GEMM "tokens=20 hidden=640 inter=128 experts=2 quant=block128 layout=normal_mma tile=16x128x128";
inline constexpr std::string_view kPadded =
    "op=grouped_gemm contract=contiguous top_k=2 load=uniform seed=1 tokens=9 hidden=128 inter=64 experts=3 "
    "quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kRouted =
    "op=grouped_gemm contract=routed top_k=2 load=uniform seed=1 tokens=9 hidden=128 inter=64 experts=4 ep=2 "
    "quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kEmpty =
    "op=grouped_gemm contract=offsets top_k=1 load=uniform seed=1 tokens=2 hidden=128 inter=64 experts=5 "
    "quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kSmallLayer =
    MOE_LAYER "tokens=9 hidden=256 inter=128 experts=4 top_k=2 quant=block128 layout=swap_ab tile=16x128x128";
/// Three panels of columns, so that neighbouring rows are other CTAs'.
inline constexpr std::string_view kWideLayer =
    MOE_LAYER "tokens=9 hidden=384 inter=128 experts=4 top_k=2 quant=block128 layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kEpLayer =
    MOE_LAYER "tokens=9 hidden=256 inter=128 experts=4 top_k=2 ep=2 rank=1 quant=block128 layout=swap_ab "
              "tile=16x128x128";
inline constexpr std::string_view kTensorLayer =
    MOE_LAYER "tokens=5 hidden=128 inter=64 experts=2 top_k=1 quant=tensor_static layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kOddLayer =
    MOE_LAYER "tokens=5 hidden=140 inter=66 experts=2 top_k=1 quant=token_channel layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kInputWeights =
    MOE_LAYER "tokens=5 hidden=128 inter=128 experts=2 top_k=1 weight_on_input=1 router=top1_sigmoid quant=block128 "
              "layout=swap_ab tile=16x128x128";
inline constexpr std::string_view kAlign =
    "op=align tokens=9 hidden=128 inter=128 experts=4 top_k=2 load=uniform seed=1 tile=16x128x128";
/// More ids than place_rows ranks by itself: count_rows runs.
inline constexpr std::string_view kCounted =
    "op=align tokens=71 hidden=128 inter=128 experts=4 top_k=2 load=uniform seed=1 tile=16x128x128";
inline constexpr std::string_view kManyIds =
    "op=align tokens=1100 hidden=128 inter=128 experts=2 top_k=2 load=uniform seed=1 tile=16x128x128";
inline constexpr std::string_view kRows = "op=quantize tokens=2 hidden=640 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                          "quant=token_channel";
inline constexpr std::string_view kBlocks = "op=quantize tokens=2 hidden=384 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                            "quant=block128";
inline constexpr std::string_view kUe8m0 = "op=quantize tokens=2 hidden=384 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                           "quant=block128 scale_format=ue8m0";
inline constexpr std::string_view kStatic = "op=quantize tokens=3 hidden=128 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                            "quant=tensor_static";
inline constexpr std::string_view kDynamic = "op=quantize tokens=3 hidden=128 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                             "quant=tensor_dynamic";
inline constexpr std::string_view kAct = "op=act_quant tokens=3 hidden=128 inter=128 experts=2 top_k=1 load=uniform seed=1 "
                                         "quant=block128";
inline constexpr std::string_view kClamped = "op=act_quant tokens=9 hidden=128 inter=256 experts=2 top_k=2 load=uniform seed=1 "
                                             "act=silu_mul_clamped limit=0.25 alpha=1.702 beta=1 quant=block128";
/// Five tokens of six heads: both end inside a CTA's block.
inline constexpr std::string_view kRope = "op=inv_rope_quant tokens=5 hidden=0 inter=0 experts=1 top_k=1 heads=6 head_groups=2 load=uniform seed=1 quant=block128";
inline constexpr std::string_view kRopePacked = "op=inv_rope_quant tokens=5 hidden=0 inter=0 experts=1 top_k=1 heads=6 head_groups=2 load=uniform seed=1 quant=block128 "
                                                "scale_format=ue8m0";
inline constexpr std::string_view kCombine =
    "op=combine tokens=4 hidden=128 inter=128 experts=8 top_k=2 load=uniform seed=1";
inline constexpr std::string_view kEpCombine =
    "op=combine tokens=6 hidden=128 inter=128 experts=8 top_k=2 ep=2 load=uniform seed=1";
inline constexpr std::string_view kSoftmax = "op=topk tokens=4 hidden=128 inter=128 experts=16 top_k=2 load=uniform seed=1";
inline constexpr std::string_view kWideSoftmax =
    "op=topk tokens=4 hidden=128 inter=128 experts=100 top_k=4 load=uniform seed=1";
inline constexpr std::string_view kPlainWeights =
    "op=topk tokens=4 hidden=128 inter=128 experts=16 top_k=2 load=uniform seed=1 renorm=0";
inline constexpr std::string_view kGrouped =
    "op=topk tokens=4 hidden=128 inter=128 experts=16 top_k=4 load=uniform seed=1 router=sigmoid_grouped groups=4 "
    "topk_groups=1 scale=2.5";
#undef MOE_GEMM
#undef MOE_LAYER

// clang-format off
inline constexpr FaultInfo kFaults[] = {
    {Fault::none, "-", "none", FaultKind::value, "", "nothing", kRing},
    // ---- the ring of stages and its mbarriers
    {Fault::full_not_awaited, "M51", "full_not_awaited", FaultKind::protocol, "uninitialised-smem", "math warps multiply a stage without waiting for its copies", kRing},
    {Fault::next_stage_awaited, "M53", "next_stage_awaited", FaultKind::protocol, "read-before-tma", "math warps wait for the barrier of the stage behind", kRing},
    {Fault::empty_not_awaited, "P01", "empty_not_awaited", FaultKind::protocol, "tma-overwrites-tma", "the producer refills a stage without waiting until it is given back", kRing},
    {Fault::copied_before_empty, "P02", "copied_before_empty", FaultKind::protocol, "overwrite-under-wgmma", "the token copy is issued in front of the wait for the stage", kRing},
    {Fault::phase_never_flips, "P03", "phase_never_flips", FaultKind::protocol, "deadlock", "the parity stays 0 when the ring wraps", kRing},
    {Fault::ring_restarts_with_tile, "P04", "ring_restarts_with_tile", FaultKind::protocol, "deadlock", "math warps begin each tile at stage 0, phase 0", kRing},
    {Fault::producer_parity_not_inverted, "P05", "producer_parity_not_inverted", FaultKind::protocol, "deadlock", "the producer waits for the parity of the math warps", kRing},
    {Fault::expects_scales_not, "P06", "expects_scales_not", FaultKind::protocol, "read-before-tma", "expect_tx leaves out the bytes of the token scales", kRing},
    {Fault::expects_16_bytes_more, "P07", "expects_16_bytes_more", FaultKind::protocol, "deadlock", "expect_tx announces 16 bytes that never come", kRing},
    {Fault::copy_signals_next_stage, "M35b", "copy_signals_next_stage", FaultKind::protocol, "deadlock", "the token copy signals the barrier of the stage behind", kRing},
    {Fault::producer_arrives_twice, "P08", "producer_arrives_twice", FaultKind::protocol, "mbarrier-arrivals", "the producer arrives twice on a barrier of count 1", kRing},
    {Fault::two_leaders, "P09", "two_leaders", FaultKind::protocol, "deadlock", "two lanes of the producer warp copy", kRing},
    {Fault::full_counts_two, "P10", "full_counts_two", FaultKind::protocol, "deadlock", "the full barriers wait for two arrivals, one comes", kRing},
    {Fault::empty_counts_one_less, "P11", "empty_counts_one_less", FaultKind::protocol, "race", "the empty barriers open one math warp too early", kRing},
    {Fault::init_not_fenced, "P12", "init_not_fenced", FaultKind::protocol, "mbarrier-init-fence", "no fence.mbarrier_init behind mbarrier.init", kRing},
    {Fault::initialised_behind_barrier, "P13", "initialised_behind_barrier", FaultKind::protocol, "mbarrier-init-race", "mbarriers are initialised behind the CTA barrier", kRing},
    {Fault::barrier_initialised_twice, "P14", "barrier_initialised_twice", FaultKind::protocol, "mbarrier-object", "a second thread initialises an mbarrier that is one", kRing},
    {Fault::block_start_over_barriers, "P15", "block_start_over_barriers", FaultKind::protocol, "mbarrier-object", "the copy of block_start lies over the last mbarrier", kRing},
    {Fault::stages_overlap, "P16", "stages_overlap", FaultKind::protocol, "tma-overwrites-tma", "the last two stages share their memory", kRing},
    {Fault::tiles_misaligned, "P17", "tiles_misaligned", FaultKind::protocol, "alignment", "operand tiles lie 128 bytes off the swizzle's 1024", kRing},
    {Fault::stage_not_given_back, "P18", "stage_not_given_back", FaultKind::protocol, "deadlock", "math warps never arrive on empty", kRing},
    {Fault::stage_given_back_twice, "P19", "stage_given_back_twice", FaultKind::protocol, "deadlock", "every math warp arrives twice on empty", kRing},
    {Fault::one_warp_gives_back_for_all, "P20", "one_warp_gives_back_for_all", FaultKind::protocol, "race", "one warp arrives for the four of its warpgroup", kRing},
    {Fault::scales_read_after_release, "M56", "scales_read_after_release", FaultKind::protocol, "race", "token scales are read from a stage that was given back", kRing},
    // ---- between wgmma's fence and its wait
    {Fault::wgmma_not_fenced, "P21", "wgmma_not_fenced", FaultKind::protocol, "wgmma-fence", "no wgmma.fence in front of the wgmma", kRing},
    {Fault::wgmma_not_committed, "P22", "wgmma_not_committed", FaultKind::protocol, "accumulator-in-flight", "no wgmma.commit_group, so that the wait waits for nothing", kRing},
    {Fault::wgmma_not_awaited, "P23", "wgmma_not_awaited", FaultKind::protocol, "accumulator-in-flight", "no wgmma.wait_group in front of the promotion", kRing},
    {Fault::wgmma_left_in_flight, "P24", "wgmma_left_in_flight", FaultKind::protocol, "accumulator-in-flight", "wgmma.wait_group leaves one group too many in flight", kLong},
    {Fault::wgmma_skipped_by_a_warp, "P25", "wgmma_skipped_by_a_warp", FaultKind::protocol, "deadlock", "one warp of the warpgroup does not issue the wgmma", kRing},
    {Fault::accumulator_touched_in_flight, "P26", "accumulator_touched_in_flight", FaultKind::protocol, "accumulator-in-flight", "an accumulator is read between issue and wait", kRing},
    {Fault::stage_given_back_in_flight, "P27", "stage_given_back_in_flight", FaultKind::protocol, "overwrite-under-wgmma", "the stage is given back before the wgmma is awaited", kRing},
    {Fault::descriptor_a_row_off, "P28", "descriptor_a_row_off", FaultKind::protocol, "alignment", "the descriptor begins one row behind a swizzle atom", kRing},
    {Fault::descriptor_of_other_swizzle, "P56", "descriptor_of_other_swizzle", FaultKind::protocol, "descriptor", "the weights' descriptor has the 64-byte swizzle, their copy the 128-byte one", kRing},
    {Fault::stage_rewritten_without_proxy_fence, "P29", "stage_rewritten_without_proxy_fence", FaultKind::protocol, "missing-proxy-fence", "a word of the operand is stored by a thread, no fence.proxy.async follows", kRing},
    {Fault::partial_sums_not_promoted, "M42", "partial_sums_not_promoted", FaultKind::value, "", "the wgmma chain runs over the whole K instead of 128", kFlat},
    // ---- the epilogue
    {Fault::patch_not_awaited, "P30", "patch_not_awaited", FaultKind::protocol, "uninitialised-smem", "no barrier between writing the output patch and copying it out", kRing},
    {Fault::patch_reused_without_barrier, "P31", "patch_reused_without_barrier", FaultKind::protocol, "race", "no barrier between copying the patch out and the next tile's writes", kRing},
    {Fault::barrier_counts_a_warp_more, "P32", "barrier_counts_a_warp_more", FaultKind::protocol, "deadlock", "the named barrier of 128 threads counts 160", kRing},
    {Fault::barrier_shared_by_groups, "P33", "barrier_shared_by_groups", FaultKind::generation, "race", "both warpgroups use one named barrier", kRing},
    {Fault::patches_overlap, "P34", "patches_overlap", FaultKind::protocol, "race", "both warpgroups use one patch", kRing},
    {Fault::bulk_store_without_proxy_fence, "M54", "bulk_store_without_proxy_fence", FaultKind::protocol, "missing-proxy-fence", "rows leave by bulk stores, no fence.proxy.async behind the ordinary writes", kRing},
    {Fault::bulk_store_not_awaited, "P35", "bulk_store_not_awaited", FaultKind::protocol, "overwrite-under-bulk-store", "rows leave by bulk stores that nothing waits for", kRing},
    {Fault::bulk_store_not_committed, "P36", "bulk_store_not_committed", FaultKind::protocol, "overwrite-under-bulk-store", "rows leave by bulk stores outside every bulk group", kRing},
    // ---- normal_mma
    {Fault::mma_full_not_awaited, "P37", "mma_full_not_awaited", FaultKind::protocol, "uninitialised-smem", "normal_mma: a stage is read without waiting for its copies", kMma},
    {Fault::mma_stage_given_back_early, "P38", "mma_stage_given_back_early", FaultKind::protocol, "race", "normal_mma: the stage is given back before it is read", kMma},
    {Fault::mma_stage_given_back_by_one_lane, "P39", "mma_stage_given_back_by_one_lane", FaultKind::protocol, "race", "normal_mma: lane 0 arrives without waiting for its warp", kMma},
    {Fault::mma_skipped_by_a_lane, "P40", "mma_skipped_by_a_lane", FaultKind::protocol, "warp-divergence", "normal_mma: one lane does not execute mma.sync", kMma},
    {Fault::mma_patch_not_awaited, "P41", "mma_patch_not_awaited", FaultKind::protocol, "uninitialised-smem", "normal_mma: no barrier between writing the patch and copying it out", kMma},
    {Fault::mma_patch_reused_without_barrier, "P42", "mma_patch_reused_without_barrier", FaultKind::protocol, "race", "normal_mma: no barrier behind the copy of the patch", kMma},
    // ---- the small kernels
    {Fault::sum_read_before_barrier, "P43", "sum_read_before_barrier", FaultKind::protocol, "uninitialised-smem", "count_rows, place_rows: warps' sums are added without a barrier", kManyIds},
    {Fault::amax_read_before_barrier, "P44", "amax_read_before_barrier", FaultKind::protocol, "uninitialised-smem", "quantize: warps' maxima are joined without a barrier", kRows},
    {Fault::starts_read_before_barrier, "P45", "starts_read_before_barrier", FaultKind::protocol, "race", "place_rows: a warp's first row is read without a barrier", kManyIds},
    {Fault::ballot_left_by_lanes, "P46", "ballot_left_by_lanes", FaultKind::protocol, "deadlock", "place_rows: lanes without ids leave before the ballot", kCounted},
    {Fault::shuffle_left_by_lanes, "P47", "shuffle_left_by_lanes", FaultKind::protocol, "deadlock", "quantize: lanes past the last column skip the shuffles", kBlocks},
    {Fault::search_left_by_lanes, "P48", "search_left_by_lanes", FaultKind::protocol, "warp-divergence", "topk_route: lanes without experts leave the search", kSoftmax},
    {Fault::count_clears_next_expert, "P49", "count_clears_next_expert", FaultKind::protocol, "cta-race", "count_rows: a CTA clears the count of the next one", kCounted},
    {Fault::every_cta_marks_foreign_pairs, "P50", "every_cta_marks_foreign_pairs", FaultKind::protocol, "cta-race", "place_rows: all CTAs write the same -1", kEpLayer},
    {Fault::every_cta_writes_the_scale, "P51", "every_cta_writes_the_scale", FaultKind::protocol, "cta-race", "quantize: all CTAs write the one scale, the same bytes", kDynamic},
    {Fault::grid_not_awaited, "M57", "grid_not_awaited", FaultKind::protocol, "dependent-launch", "act_quant does not wait for the kernel in front", kSmallLayer},
    {Fault::gemm_grid_not_awaited, "M57b", "gemm_grid_not_awaited", FaultKind::protocol, "dependent-launch", "a GEMM loads tokens without waiting for the kernel that quantises them", kSmallLayer},
    {Fault::ids_ranked_before_barrier, "P55", "ids_ranked_before_barrier", FaultKind::protocol, "race", "place_rows ranks ids of shared memory without a barrier behind their copy", kAlign},
    // ---- bounds
    {Fault::block_start_copied_short, "M13b", "block_start_copied_short", FaultKind::bounds, "uninitialised-smem", "the last entry of block_start is not copied", kRing},
    {Fault::row_tail_stored, "M06", "row_tail_stored", FaultKind::bounds, "cta-race", "rows of the next expert are stored from a ragged tile", kWideLayer},
    {Fault::column_tail_stored, "M04", "column_tail_stored", FaultKind::bounds, "cta-race", "columns past N are stored over the next row", kTails},
    {Fault::rows_and_columns_exchanged, "M61", "rows_and_columns_exchanged", FaultKind::bounds, "global-bounds", "the output is written [N][M]", kFlat},
    {Fault::weight_scales_read_past_end, "M08", "weight_scales_read_past_end", FaultKind::bounds, "global-bounds", "one weight scale too many is read", kRing},
    {Fault::column_scales_read_past_end, "M05", "column_scales_read_past_end", FaultKind::bounds, "global-bounds", "channel scales past N are read", kTails},
    {Fault::ids_read_past_end, "P52", "ids_read_past_end", FaultKind::bounds, "global-bounds", "count_rows reads four ids where two are left", kCounted},
    {Fault::padding_filled_past_end, "M07", "padding_filled_past_end", FaultKind::bounds, "global-bounds", "place_rows fills one entry past the last", kAlign},
    {Fault::foreign_row_activated, "M15", "foreign_row_activated", FaultKind::bounds, "global-bounds", "act_quant uses row -1 as an index", kEpLayer},
    // ---- values, in kernels
    {Fault::k_tail_dropped, "V01", "k_tail_dropped", FaultKind::value, "", "the k-blocks are K / 128, rounded down", kTails},
    {Fault::tile_map_not_a_bijection, "M11", "tile_map_not_a_bijection", FaultKind::value, "", "panel and block of a tile both count up", "op=grouped_gemm contract=offsets load=uniform seed=1 tokens=20 hidden=128 inter=128 experts=1 top_k=1 quant=block128 layout=swap_ab tile=16x128x128"},
    {Fault::weight_scale_of_first_expert, "M30", "weight_scale_of_first_expert", FaultKind::value, "", "weight scales of expert 0 for all", kRing},
    {Fault::weight_scale_not_advanced, "M31", "weight_scale_not_advanced", FaultKind::value, "", "weight scales of k-block 0 for all", kRing},
    {Fault::weight_scale_of_gate_for_up, "M36", "weight_scale_of_gate_for_up", FaultKind::value, "", "the up half uses the gate half's weight scales", kRing},
    {Fault::token_scale_not_advanced, "M31b", "token_scale_not_advanced", FaultKind::value, "", "token scales of k-block 0 for all", kRing},
    {Fault::token_scale_truncated, "M37", "token_scale_truncated", FaultKind::value, "", "token scales lose their fraction, as if ue8m0", kRing},
    {Fault::accumulator_kept_from_tile_before, "M43", "accumulator_kept_from_tile_before", FaultKind::value, "", "a tile begins with the sums of the tile before", kRing},
    {Fault::output_stride_ignored, "M64", "output_stride_ignored", FaultKind::value, "", "rows of the output are N apart", kOddLayer},
    {Fault::bf16_truncated, "V02", "bf16_truncated", FaultKind::value, "", "outputs are cut off to bf16, not rounded", kFlat},
    {Fault::bias_before_scales, "V03", "bias_before_scales", FaultKind::value, "", "the bias is added in front of the scales", kBias},
    {Fault::mma_swizzle_forgotten, "V04", "mma_swizzle_forgotten", FaultKind::value, "", "normal_mma: operands are read without the swizzle", kMma},
    {Fault::empty_expert_takes_a_tile, "M13", "empty_expert_takes_a_tile", FaultKind::value, "", "an expert without rows takes a tile: only counts and time tell", kEmpty},
    {Fault::padding_blocks_name_expert_0, "M14", "padding_blocks_name_expert_0", FaultKind::value, "", "blocks of padding name expert 0 instead of -1", kAlign},
    {Fault::minus_one_counts_for_expert_0, "M15b", "minus_one_counts_for_expert_0", FaultKind::value, "", "id -1 counts for expert 0", kPadded},
    {Fault::duplicates_counted_once, "M17", "duplicates_counted_once", FaultKind::value, "", "equal ids among four count once", kSmallLayer},
    {Fault::rows_placed_backwards, "V05", "rows_placed_backwards", FaultKind::value, "", "pairs of an expert are placed in descending order of lanes", kCounted},
    {Fault::nan_logit_selectable, "M24", "nan_logit_selectable", FaultKind::value, "", "a NaN logit has the largest key", kSoftmax, InputEdit::nan_logits},
    {Fault::masked_score_is_zero, "M25", "masked_score_is_zero", FaultKind::value, "", "experts of other groups get score 0 instead of -infinity", kGrouped, InputEdit::negative_logits},
    {Fault::bias_leaks_into_weight, "M26", "bias_leaks_into_weight", FaultKind::value, "", "weights come from score + bias", kGrouped},
    {Fault::ties_to_the_higher_expert, "M27", "ties_to_the_higher_expert", FaultKind::value, "", "equal logits choose the higher expert", kSoftmax, InputEdit::equal_logits},
    {Fault::renormalise_ignored, "M28", "renormalise_ignored", FaultKind::value, "", "weights are renormalised though the router does not ask", kPlainWeights},
    {Fault::router_scale_dropped, "V06", "router_scale_dropped", FaultKind::value, "", "the routed scaling factor is 1", kGrouped},
    {Fault::router_body_too_small, "M69", "router_body_too_small", FaultKind::value, "", "the body for 64 experts serves up to 128", kWideSoftmax},
    {Fault::scale_row_is_token, "M29", "scale_row_is_token", FaultKind::value, "", "token scales are stored at the token instead of the sorted row", kSmallLayer},
    {Fault::scale_strides_exchanged, "M34", "scale_strides_exchanged", FaultKind::value, "", "token scales are stored transposed", kBlocks},
    {Fault::input_stride_ignored, "M65", "input_stride_ignored", FaultKind::value, "", "rows of the input are K apart", kOddLayer},
    {Fault::amax_floor_missing, "M38", "amax_floor_missing", FaultKind::value, "", "an amax of 0 gives 0 / 0", kBlocks, InputEdit::zero_block},
    {Fault::amax_floor_for_zero_only, "M39", "amax_floor_for_zero_only", FaultKind::value, "", "a tiny amax overflows the reciprocal", kBlocks, InputEdit::tiny_block},
    {Fault::cast_not_saturating, "M40", "cast_not_saturating", FaultKind::value, "", "values over 464 become NaN", kStatic, InputEdit::large_block},
    {Fault::ue8m0_rounded_down, "M40b", "ue8m0_rounded_down", FaultKind::value, "", "power-of-two scales are rounded down", kUe8m0},
    {Fault::amax_of_half_a_block, "V07", "amax_of_half_a_block", FaultKind::value, "", "the amax is taken over 64 columns", kBlocks},
    {Fault::gate_and_up_exchanged, "M45", "gate_and_up_exchanged", FaultKind::value, "", "gate and up halves are exchanged", kAct},
    {Fault::activation_rounded_to_bf16, "V08", "activation_rounded_to_bf16", FaultKind::value, "", "the activation is cut to bf16 in front of its quantisation", kAct},
    {Fault::activation_limit_ignored, "V09", "activation_limit_ignored", FaultKind::value, "", "the gate's limit is not applied", kClamped},
    {Fault::weight_applied_twice, "M21", "weight_applied_twice", FaultKind::value, "", "routing weights are squared", kCombine},
    {Fault::foreign_expert_adds_a_row, "M19", "foreign_expert_adds_a_row", FaultKind::value, "", "a pair of another rank adds row 0", kEpLayer},
    {Fault::foreign_id_taken_for_local, "M16", "foreign_id_taken_for_local", FaultKind::value, "", "ids are checked from below only", kEpCombine, InputEdit::foreign_rows},
    {Fault::combine_adds_to_old_output, "M47", "combine_adds_to_old_output", FaultKind::value, "", "the output is added to, not written", kCombine},
    {Fault::slots_added_backwards, "M59", "slots_added_backwards", FaultKind::value, "", "slots are added in another order", kCombine, InputEdit::cancelling_rows},
    {Fault::sum_not_fused, "V10", "sum_not_fused", FaultKind::value, "", "weight and row are multiplied and then added, two roundings", kCombine, InputEdit::cancelling_rows},
    {Fault::row_offset_in_32_bits, "M01", "row_offset_in_32_bits", FaultKind::value, "", "row * stride in 32 bits: needs 2^31 elements, more than a test's memory", "op=combine tokens=38000 hidden=7168 inter=128 experts=8 top_k=8 load=uniform seed=1", InputEdit::none, true},
    {Fault::zeroed_rows_not_zeroed, "M47b", "zeroed_rows_not_zeroed", FaultKind::value, "", "rows of another rank's experts keep what was there", kRouted},
    // ---- host code
    {Fault::shared_memory_over_limit, "M67", "shared_memory_over_limit", FaultKind::host, "smem-size", "the launch asks for more than 227 KB of shared memory", kRing},
    {Fault::shared_memory_too_small, "P53", "shared_memory_too_small", FaultKind::host, "smem-bounds", "the launch asks for less shared memory than the kernel uses", kRing},
    {Fault::scale_stride_not_aligned, "M35", "scale_stride_not_aligned", FaultKind::host, "alignment", "lines of token scales do not begin at 16 bytes", kRing},
    {Fault::scale_slack_missing, "M08b", "scale_slack_missing", FaultKind::host, "global-bounds", "token scales end with the last row, not with its tile", "op=grouped_gemm contract=offsets top_k=2 load=uniform seed=1 tokens=9 hidden=128 inter=128 experts=2 quant=block128 layout=swap_ab tile=32x128x128"},
    {Fault::plan_sized_for_half_the_pairs, "M50", "plan_sized_for_half_the_pairs", FaultKind::host, "global-bounds", "workspaces are sized for half the rows", kSmallLayer},
    {Fault::plan_of_gemm1_for_gemm2, "M68b", "plan_of_gemm1_for_gemm2", FaultKind::host, "", "GEMM 2 walks the tiles of GEMM 1", "op=moe_layer load=uniform seed=1 tokens=20 hidden=256 inter=128 experts=2 top_k=2 quant=block128 layout=swap_ab tile=8x128x128 tile_down=16x128x128"},
    {Fault::kernel_of_another_tile, "M68", "kernel_of_another_tile", FaultKind::host, "deadlock", "the kernel of twice the tile is launched", kRing},
    {Fault::expert_offset_applied_twice, "M96", "expert_offset_applied_twice", FaultKind::host, "", "the rank's first expert is added twice", kEpLayer},
    {Fault::grid_clamped_to_65535, "M09", "grid_clamped_to_65535", FaultKind::host, "", "grids end at 65535 CTAs", "op=quantize tokens=65537 hidden=128 inter=128 experts=2 top_k=1 load=uniform seed=1 quant=block128", InputEdit::none, false, true},
    {Fault::launched_without_tokens, "M22", "launched_without_tokens", FaultKind::host, "", "an idle rank launches its kernels", "op=moe_layer load=uniform seed=1 tokens=0 hidden=256 inter=128 experts=2 top_k=2 quant=block128 layout=swap_ab tile=16x128x128"},
    {Fault::static_scale_of_other_gemm, "V11", "static_scale_of_other_gemm", FaultKind::host, "", "the second quantisation uses the first one's scale", kTensorLayer},
    {Fault::weights_on_input_and_output, "M21b", "weights_on_input_and_output", FaultKind::host, "", "routing weights are applied on both sides", kInputWeights},
    {Fault::act_quant_before_gemm1, "P54", "act_quant_before_gemm1", FaultKind::host, "", "two launches change places", kSmallLayer},
    {Fault::graph_misses_first_stage, "M58", "graph_misses_first_stage", FaultKind::host, "", "the graph is captured without the router; the emulated SM captures no graph", kSmallLayer, InputEdit::none, true},
    // ---- inv_rope_quant
    {Fault::rope_scales_read_before_barrier, "P57", "rope_scales_read_before_barrier", FaultKind::protocol, "race", "a token's scales are stored while other warps compute theirs", kRope},
    {Fault::rope_padding_not_zeroed, "P58", "rope_padding_not_zeroed", FaultKind::protocol, "uninitialised-smem", "scales of padding tokens are what shared memory held", kRope},
    {Fault::rope_token_tail_stored, "P59", "rope_token_tail_stored", FaultKind::bounds, "global-bounds", "one token more than there are is computed and stored", kRope},
    {Fault::rope_head_tail_stored, "P60", "rope_head_tail_stored", FaultKind::bounds, "global-bounds", "codes of heads behind the last are stored", kRope},
    {Fault::rope_scale_lines_not_padded, "P61", "rope_scale_lines_not_padded", FaultKind::bounds, "misaligned-access", "a line of scales is as long as there are tokens, not padded to four: lines overlap", kRope},
    {Fault::rope_turned_forward, "V12", "rope_turned_forward", FaultKind::value, "", "the rotation is not the inverse one", kRope},
    {Fault::rope_sines_before_cosines, "V13", "rope_sines_before_cosines", FaultKind::value, "", "a row of the table is read as sines and then cosines", kRope},
    {Fault::rope_position_is_token, "V14", "rope_position_is_token", FaultKind::value, "", "a token's number is taken for its position", kRope},
    {Fault::rope_amax_of_two_blocks, "V15", "rope_amax_of_two_blocks", FaultKind::value, "", "256 columns share one scale", kRope},
    {Fault::rope_exponents_reversed, "V16", "rope_exponents_reversed", FaultKind::value, "", "the four exponents of a word stand in the other order", kRopePacked},
};
// clang-format on

constexpr bool faults_in_order() {
  int i = 0;
  for (const FaultInfo& f : kFaults)
    if (int(f.fault) != i++) return false;
  return i == int(Fault::count);
}
static_assert(faults_in_order(), "a line for each Fault, in its order");

/// The catalogue's faults that these kernels cannot have.
struct AbsentFault {
  std::string_view id, why;
};
inline constexpr AbsentFault kAbsent[] = {
    {"M03", "offsets under imbalance are those of M01: rows are sorted, one offset serves all experts"},
    {"M18, M96 in packing", "weights arrive per rank; nothing packs them by a global expert id"},
    {"M20", "no kernel computes shared experts"},
    {"M23", "no size is tested for a power of two"},
    {"M32", "block_n is 128 in every tile, so that a scale block is a panel"},
    {"M48", "a row past the tail is computed from its own codes and not stored: wgmma mixes no rows of tokens"},
    {"M60", "K is never split"},
    {"M63", "the layout is named in the Case, no threshold chooses it"},
    {"M70", "kernels are compiled before, no key chooses among compiled ones"},
};

/// Looks a fault up by id or name; Fault::count when there is none.
constexpr Fault find_fault(std::string_view word) {
  for (const FaultInfo& f : kFaults)
    if (f.id == word || f.name == word) return f.fault;
  return Fault::count;
}

}  // namespace moe::device
