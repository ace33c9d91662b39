// Which kernels are built? One line a variant; its place in the table is its index, which Machine::launch
// takes, and variant.cu and variant.cpp are compiled once for each with -DMOE_VARIANT=<index>. To add a
// kernel: a KernelKind, lines here, and a KernelOf for its kind in variant_kernel.cuh.
#pragma once
#include "device/kernels/grouped_gemm_config.hpp"
#include "device/kernels/inv_rope_quant_params.hpp"
#include "device/kernels/place_rows_params.hpp"

namespace moe::device {

enum class KernelKind : std::uint8_t {
  grouped_gemm,
  topk_route,
  count_rows,
  place_rows,
  expert_of_rows,
  gather_rows,
  hidden_amax,
  quantize,
  act_amax,
  act_quant,
  combine,
  generate_weights,
  inv_rope_quant,
  gathered_gemm,
};

struct Variant {
  int index;
  const char* name;
  KernelKind kind;
  int threads;           // of a CTA
  int shared_bytes;      // dynamic
  GemmConfig gemm = {};  // KernelKind::grouped_gemm, gathered_gemm
  int option = 0;        // of the other kinds, as their KernelOf reads it
};

/// Line of a grouped GEMM: threads and shared memory follow from the config.
constexpr Variant gemm_variant(int index, const char* name, GemmConfig c) {
  return {index, name, KernelKind::grouped_gemm, c.threads(), c.shared_bytes(), c};
}

/// Line of one that fetches its token rows itself.
constexpr Variant gathered_variant(int index, const char* name, GemmConfig c) {
  return {index, name, KernelKind::gathered_gemm, c.threads(), c.shared_bytes(), c};
}

/// Line of a kernel without tensor cores: the most threads a CTA may have, and what its reductions keep in
/// shared memory.
constexpr Variant small_variant(int index, const char* name, KernelKind kind, int threads,
                                int shared_bytes = 0) {
  return {index, name, kind, threads, shared_bytes};
}

inline constexpr Variant kVariants[] = {
    gemm_variant(0, "swap_ab_m8_block", {GemmKind::swap_ab, 8, 8, ScaleKind::block}),
    gemm_variant(1, "swap_ab_m16_block", {GemmKind::swap_ab, 16, 8, ScaleKind::block}),
    gemm_variant(2, "swap_ab_m32_block", {GemmKind::swap_ab, 32, 8, ScaleKind::block}),
    gemm_variant(3, "swap_ab_m64_block", {GemmKind::swap_ab, 64, 8, ScaleKind::block}),
    gemm_variant(4, "swap_ab_m128_block", {GemmKind::swap_ab, 128, 6, ScaleKind::block}),
    gemm_variant(5, "swap_ab_m8_flat", {GemmKind::swap_ab, 8, 8, ScaleKind::flat}),
    gemm_variant(6, "swap_ab_m16_flat", {GemmKind::swap_ab, 16, 8, ScaleKind::flat}),
    gemm_variant(7, "swap_ab_m32_flat", {GemmKind::swap_ab, 32, 8, ScaleKind::flat}),
    gemm_variant(8, "swap_ab_m64_flat", {GemmKind::swap_ab, 64, 8, ScaleKind::flat}),
    gemm_variant(9, "swap_ab_m128_flat", {GemmKind::swap_ab, 128, 6, ScaleKind::flat}),
    gemm_variant(10, "normal_wgmma_m64_block", {GemmKind::normal_wgmma, 64, 8, ScaleKind::block}),
    gemm_variant(11, "normal_wgmma_m128_block", {GemmKind::normal_wgmma, 128, 6, ScaleKind::block}),
    gemm_variant(12, "normal_wgmma_m64_flat", {GemmKind::normal_wgmma, 64, 8, ScaleKind::flat}),
    gemm_variant(13, "normal_wgmma_m128_flat", {GemmKind::normal_wgmma, 128, 6, ScaleKind::flat}),
    gemm_variant(14, "normal_mma_m16_block", {GemmKind::normal_mma, 16, 8, ScaleKind::block}),
    gemm_variant(15, "normal_mma_m32_block", {GemmKind::normal_mma, 32, 8, ScaleKind::block}),
    gemm_variant(16, "normal_mma_m16_flat", {GemmKind::normal_mma, 16, 8, ScaleKind::flat}),
    gemm_variant(17, "normal_mma_m32_flat", {GemmKind::normal_mma, 32, 8, ScaleKind::flat}),
    small_variant(18, "topk_route", KernelKind::topk_route, 128),
    small_variant(19, "count_rows", KernelKind::count_rows, 256, 128),
    small_variant(20, "place_rows", KernelKind::place_rows, 256, 4 * kPlaceWords),
    small_variant(21, "expert_of_rows", KernelKind::expert_of_rows, 128),
    small_variant(22, "gather_rows", KernelKind::gather_rows, 128),
    small_variant(23, "hidden_amax", KernelKind::hidden_amax, 256, 128),
    small_variant(24, "quantize", KernelKind::quantize, 256, 128),
    small_variant(25, "act_amax", KernelKind::act_amax, 256, 128),
    small_variant(26, "act_quant", KernelKind::act_quant, 256, 128),
    small_variant(27, "combine", KernelKind::combine, 128),
    small_variant(28, "generate_weights", KernelKind::generate_weights, 256),
    gemm_variant(29, "swap_ab_m8_n64_block", {GemmKind::swap_ab, 8, 16, ScaleKind::block, 64}),
    gemm_variant(30, "swap_ab_m8_n64_flat", {GemmKind::swap_ab, 8, 16, ScaleKind::flat, 64}),
    gemm_variant(31, "normal_wgmma_m64_n64_block", {GemmKind::normal_wgmma, 64, 12, ScaleKind::block, 64}),
    gemm_variant(32, "normal_wgmma_m64_n64_flat", {GemmKind::normal_wgmma, 64, 12, ScaleKind::flat, 64}),
    gemm_variant(33, "normal_mma_m16_n64_block", {GemmKind::normal_mma, 16, 16, ScaleKind::block, 64}),
    gemm_variant(34, "normal_mma_m16_n64_flat", {GemmKind::normal_mma, 16, 16, ScaleKind::flat, 64}),
    small_variant(35, "inv_rope_quant", KernelKind::inv_rope_quant, 32 * kRopeTokens,
                  4 * kRopeHeads * kRopeTokens * 4),
    gathered_variant(36, "gathered_swap_ab_m8_block", {GemmKind::swap_ab, 8, 8, ScaleKind::block}),
    gathered_variant(37, "gathered_swap_ab_m16_block", {GemmKind::swap_ab, 16, 8, ScaleKind::block}),
    gathered_variant(38, "gathered_swap_ab_m32_block", {GemmKind::swap_ab, 32, 8, ScaleKind::block}),
    gathered_variant(39, "gathered_swap_ab_m64_block", {GemmKind::swap_ab, 64, 8, ScaleKind::block}),
    gathered_variant(40, "gathered_swap_ab_m128_block", {GemmKind::swap_ab, 128, 6, ScaleKind::block}),
    gathered_variant(41, "gathered_swap_ab_m8_flat", {GemmKind::swap_ab, 8, 8, ScaleKind::flat}),
    gathered_variant(42, "gathered_swap_ab_m16_flat", {GemmKind::swap_ab, 16, 8, ScaleKind::flat}),
    gathered_variant(43, "gathered_swap_ab_m32_flat", {GemmKind::swap_ab, 32, 8, ScaleKind::flat}),
    gathered_variant(44, "gathered_swap_ab_m64_flat", {GemmKind::swap_ab, 64, 8, ScaleKind::flat}),
    gathered_variant(45, "gathered_swap_ab_m128_flat", {GemmKind::swap_ab, 128, 6, ScaleKind::flat}),
    gathered_variant(46, "gathered_normal_wgmma_m64_block",
                     {GemmKind::normal_wgmma, 64, 8, ScaleKind::block}),
    gathered_variant(47, "gathered_normal_wgmma_m128_block",
                     {GemmKind::normal_wgmma, 128, 6, ScaleKind::block}),
    gathered_variant(48, "gathered_normal_wgmma_m64_flat", {GemmKind::normal_wgmma, 64, 8, ScaleKind::flat}),
    gathered_variant(49, "gathered_normal_wgmma_m128_flat",
                     {GemmKind::normal_wgmma, 128, 6, ScaleKind::flat}),
    gathered_variant(50, "gathered_swap_ab_m8_n64_block", {GemmKind::swap_ab, 8, 16, ScaleKind::block, 64}),
    gathered_variant(51, "gathered_swap_ab_m8_n64_flat", {GemmKind::swap_ab, 8, 16, ScaleKind::flat, 64}),
    gathered_variant(52, "gathered_normal_wgmma_m64_n64_block",
                     {GemmKind::normal_wgmma, 64, 12, ScaleKind::block, 64}),
    gathered_variant(53, "gathered_normal_wgmma_m64_n64_flat",
                     {GemmKind::normal_wgmma, 64, 12, ScaleKind::flat, 64}),
};
inline constexpr int kVariantCount = int(sizeof(kVariants) / sizeof(kVariants[0]));

constexpr bool variants_in_order() {
  for (int i = 0; i < kVariantCount; ++i)
    if (kVariants[i].index != i || kVariants[i].shared_bytes > 232448) return false;
  return true;
}
static_assert(variants_in_order(),
              "a variant's index is its place in the table; shared memory fits sm90::kSharedBytesPerCta");

}  // namespace moe::device
