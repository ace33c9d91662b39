// The emulated SM's code of one line of variants.hpp in a test build: as variant.cpp, with every planted
// fault. The faults between a wgmma's fence and its wait are instantiations of their own.
#include "device/kernels/emulated_variant.hpp"
#include "device/kernels/variant_kernel.cuh"
#include "device/planted/wgmma_faults.hpp"

namespace moe::device {
namespace {

template <int Index, int Place>
void run_wgmma_fault(const typename KernelOf<Index>::Params& p, int fault) {
  if constexpr (Place < kWgmmaFaultCount) {
    constexpr Fault kFault = kWgmmaFaults[Place];
    if (fault == int(kFault)) return GemmOf<kVariants[Index].gemm, kFault>::run(p);
    run_wgmma_fault<Index, Place + 1>(p, fault);
  } else {
    KernelOf<Index>::run(p);
  }
}

}  // namespace

template <int Index>
void EmulatedVariant<Index>::run(const void* params) {
  const auto& p = *static_cast<const typename KernelOf<Index>::Params*>(params);
  if constexpr (kVariants[Index].kind == KernelKind::grouped_gemm)
    run_wgmma_fault<Index, 0>(p, hopper::engine::planted_fault());
  else
    KernelOf<Index>::run(p);
}
template <int Index>
std::uint64_t EmulatedVariant<Index>::params_bytes() {
  return sizeof(typename KernelOf<Index>::Params);
}
template struct EmulatedVariant<MOE_VARIANT>;

}  // namespace moe::device
