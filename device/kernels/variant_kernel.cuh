// Which code does a line of variants.hpp run? KernelOf<index> has the parameter struct `Params` and a device
// function `run(const Params&)`, always inlined into the one __global__ entry of variant.cu (card) or
// variant.cpp (emulated SM).
#pragma once
#include "device/kernels/act_quant.cuh"
#include "device/kernels/combine.cuh"
#include "device/kernels/count_rows.cuh"
#include "device/kernels/expert_of_rows.cuh"
#include "device/kernels/gather_rows.cuh"
#include "device/kernels/gathered_gemm.cuh"
#include "device/kernels/generate_weights.cuh"
#include "device/kernels/grouped_gemm.cuh"
#include "device/kernels/grouped_mma.cuh"
#include "device/kernels/inv_rope_quant.cuh"
#include "device/kernels/place_rows.cuh"
#include "device/kernels/quantize.cuh"
#include "device/kernels/topk_route.cuh"
#include "device/kernels/variants.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  template <KernelKind Kind, int Index>
  struct KernelOfKind;

  /// A grouped GEMM; `W` is planted between wgmma's fence and its wait, in a test build.
  template <GemmConfig C, Fault W, bool Mma = C.kind == GemmKind::normal_mma>
  struct GemmOf : GroupedGemm<with_fault(C, W)> {};
  template <GemmConfig C, Fault W>
  struct GemmOf<C, W, true> : GroupedMma<C> {};

  template <int Index>
  struct KernelOfKind<KernelKind::grouped_gemm, Index> : GemmOf<kVariants[Index].gemm, Fault::none> {};
  template <int Index>
  struct KernelOfKind<KernelKind::gathered_gemm, Index> : GatheredGemm<kVariants[Index].gemm> {};
  template <int Index>
  struct KernelOfKind<KernelKind::topk_route, Index> : TopkRoute {};
  template <int Index>
  struct KernelOfKind<KernelKind::count_rows, Index> : CountRows {};
  template <int Index>
  struct KernelOfKind<KernelKind::place_rows, Index> : PlaceRows {};
  template <int Index>
  struct KernelOfKind<KernelKind::expert_of_rows, Index> : ExpertOfRows {};
  template <int Index>
  struct KernelOfKind<KernelKind::gather_rows, Index> : GatherRows {};
  template <int Index>
  struct KernelOfKind<KernelKind::hidden_amax, Index> : HiddenAmax {};
  template <int Index>
  struct KernelOfKind<KernelKind::quantize, Index> : Quantize {};
  template <int Index>
  struct KernelOfKind<KernelKind::act_amax, Index> : ActAmax {};
  template <int Index>
  struct KernelOfKind<KernelKind::act_quant, Index> : ActQuant {};
  template <int Index>
  struct KernelOfKind<KernelKind::combine, Index> : Combine {};
  template <int Index>
  struct KernelOfKind<KernelKind::generate_weights, Index> : GenerateWeights {};

  template <int Index>
  struct KernelOfKind<KernelKind::inv_rope_quant, Index> : InvRopeQuant {};

  template <int Index>
  using KernelOf = KernelOfKind<kVariants[Index].kind, Index>;

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
