#include "reference/tensor_core/chain.hpp"

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

#include "reference/tensor_core/chain_levels.hpp"

namespace moe::reference {

std::string_view name(Level level) {
  switch (level) {
    case Level::avx2:
      return "avx2";
    case Level::avx512:
      return "avx512";
    case Level::plain:
      break;
  }
  return "plain";
}

#if defined(__x86_64__)
namespace {
/// CPUID leaf 1, ECX bit 29: clang before 17 has no word for it in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
}  // namespace
#endif

bool available(Level level) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  return level == Level::plain || (level == Level::avx2 ? avx2 : avx512);
#else
  return level == Level::plain;
#endif
}

Level best_level() {
  static const Level best = available(Level::avx512) ? Level::avx512
                            : available(Level::avx2) ? Level::avx2
                                                     : Level::plain;
  return best;
}

const ChainKernel& chain_kernel(ChainKind kind, Level level) {
  if (kind == ChainKind::wgmma)
    return level == Level::avx512 ? kWgmmaAvx512 : level == Level::avx2 ? kWgmmaAvx2 : kWgmmaPlain;
  const auto& kernels = level == Level::avx512 ? kHmmaAvx512 : level == Level::avx2 ? kHmmaAvx2 : kHmmaPlain;
  return kernels[kind == ChainKind::hmma_interleaved4];
}

}  // namespace moe::reference
