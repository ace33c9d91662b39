// Which code does a line of variants.hpp run? KernelOf<index> has the parameter struct `Params` and a device
// function `run(const Params&)`, always inlined into the one __global__ entry of variant.cu (card) or
// variant.cpp (emulated SM).
#pragma once
#include "device/kernels/grouped_gemm.cuh"
#include "device/kernels/grouped_mma.cuh"
#include "device/kernels/variants.hpp"

namespace moe::device {
MOE_KERNEL_NAMESPACE {
  template <KernelKind Kind, int Index>
  struct KernelOfKind;

  template <int Index, bool Mma = kVariants[Index].gemm.kind == GemmKind::normal_mma>
  struct GemmOf : GroupedGemm<kVariants[Index].gemm> {};
  template <int Index>
  struct GemmOf<Index, true> : GroupedMma<kVariants[Index].gemm> {};

  template <int Index>
  struct KernelOfKind<KernelKind::grouped_gemm, Index> : GemmOf<Index> {};

  template <int Index>
  using KernelOf = KernelOfKind<kVariants[Index].kind, Index>;

}  // MOE_KERNEL_NAMESPACE
}  // namespace moe::device
