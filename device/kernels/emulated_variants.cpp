#include "device/kernels/emulated_variants.hpp"

#include <utility>

#include "device/kernels/emulated_variant.hpp"
#include "device/kernels/variants.hpp"

namespace moe::device {
namespace {

static_assert(kVariantCount == MOE_VARIANT_COUNT,
              "the build compiles variant.cpp once for each line of variants.hpp");

template <int... Index>
std::span<const EmulatedKernel> table(std::integer_sequence<int, Index...>) {
  static const EmulatedKernel kernels[] = {
      {EmulatedVariant<Index>::run, EmulatedVariant<Index>::params_bytes(), kVariants[Index].name}...};
  return kernels;
}

}  // namespace

std::span<const EmulatedKernel> emulated_variants() {
  return table(std::make_integer_sequence<int, kVariantCount>{});
}

}  // namespace moe::device
