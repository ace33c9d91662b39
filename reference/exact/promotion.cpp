#include "reference/exact/promotion.hpp"

namespace moe::reference {
namespace {

/// One column, each operation rounded once; inlined into the loops below so that each runs with the
/// instruction set of its caller.
template <ScaleOrder order>
inline __attribute__((always_inline)) float join(float part, float a, float w, float acc) {
  switch (order) {
    case ScaleOrder::product_fma:
      return __builtin_fmaf(a * w, part, acc);
    case ScaleOrder::act_weight_fma:
      return __builtin_fmaf(part * a, w, acc);
    case ScaleOrder::weight_act_fma:
      return __builtin_fmaf(part * w, a, acc);
    case ScaleOrder::act_weight_mul_add:
      return acc + (part * a) * w;
    case ScaleOrder::product_mul_add:
      return acc + part * (a * w);
  }
  return acc;
}

template <ScaleOrder order>
void promote_any(const float* part, float a, float w, float* acc) {
  for (int j = 0; j < kGroupColumns; ++j) acc[j] = join<order>(part[j], a, w, acc[j]);
}

#if defined(__x86_64__)
template <ScaleOrder order>
__attribute__((target("avx2,fma"), optimize("O3"))) void promote_fma(const float* part, float a, float w,
                                                                     float* acc) {
  for (int j = 0; j < kGroupColumns; ++j) acc[j] = join<order>(part[j], a, w, acc[j]);
}
#else
template <ScaleOrder order>
constexpr PromoteBlock promote_fma = promote_any<order>;
#endif

template <ScaleOrder order>
PromoteBlock choose(Level level) {
  return level == Level::plain ? promote_any<order> : promote_fma<order>;
}

}  // namespace

PromoteBlock promote_block(ScaleOrder order, Level level) {
  switch (order) {
    case ScaleOrder::product_fma:
      return choose<ScaleOrder::product_fma>(level);
    case ScaleOrder::act_weight_fma:
      return choose<ScaleOrder::act_weight_fma>(level);
    case ScaleOrder::weight_act_fma:
      return choose<ScaleOrder::weight_act_fma>(level);
    case ScaleOrder::act_weight_mul_add:
      return choose<ScaleOrder::act_weight_mul_add>(level);
    case ScaleOrder::product_mul_add:
      break;
  }
  return choose<ScaleOrder::product_mul_add>(level);
}

void promote_plain_sum(const float* part, float* acc) {
  for (int j = 0; j < kGroupColumns; ++j) acc[j] += part[j];
}

float scale_chain(ScaleOrder order, float acc, float a, float w) {
  switch (order) {
    case ScaleOrder::act_weight_fma:
    case ScaleOrder::act_weight_mul_add:
      return (acc * a) * w;
    case ScaleOrder::weight_act_fma:
      return (acc * w) * a;
    case ScaleOrder::product_fma:
    case ScaleOrder::product_mul_add:
      break;
  }
  return acc * (a * w);
}

}  // namespace moe::reference
