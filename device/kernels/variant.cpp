// The emulated SM's code of one line of variants.hpp, chosen by -DMOE_VARIANT=<index> and compiled with the
// emulator's hooks.
#include "device/kernels/emulated_variant.hpp"
#include "device/kernels/variant_kernel.cuh"

namespace moe::device {

template <int Index>
void EmulatedVariant<Index>::run(const void* params) {
  KernelOf<Index>::run(*static_cast<const typename KernelOf<Index>::Params*>(params));
}
template <int Index>
std::uint64_t EmulatedVariant<Index>::params_bytes() {
  return sizeof(typename KernelOf<Index>::Params);
}
template struct EmulatedVariant<MOE_VARIANT>;

}  // namespace moe::device
