#include "reference/bound.hpp"

#include <algorithm>
#include <cmath>

namespace moe::reference {
namespace {

constexpr std::int64_t kPanel = 128;
constexpr double kFp32 = 0x1p-24;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// FP8 wgmma: each of P products and n - 1 accumulators is cut at 2^-13 of E, each of n outputs at 2^-13 of
// itself.
double wgmma_chain(std::int64_t products) {
  const std::int64_t steps = ceil_div(products, 32);
  return double(products + 2 * steps) * 0x1p-13;
}

// f16 HMMA: 16-wide, alignment at 2^-25 of E, output truncated at 2^-23 of itself.
double hmma_chain(std::int64_t products) {
  const std::int64_t steps = ceil_div(products, 16);
  return double(products + steps) * 0x1p-25 + double(steps) * 0x1p-23;
}

}  // namespace

AccumulationBound accumulation_bound(const Semantics* semantics, const QuantScheme& scheme, std::int64_t k,
                                     double sums) {
  AccumulationBound bound;
  std::int64_t promote = semantics ? semantics->promote_k : 0;
  if (scheme.block() && (promote == 0 || promote > kPanel)) promote = kPanel;  // a chain cannot cross a scale
  if (promote >= k) promote = 0;
  // Shorter chains than a panel: their sizes add up to at most A of the panel, which is at most twice its E.
  const bool short_chain = promote != 0 && 2 * promote <= kPanel;
  const std::int64_t products = promote == 0 ? k : short_chain ? 2 * promote : promote;
  bound.chain = promote == 0 ? 0 : ceil_div(promote, kPanel) * kPanel;
  bound.half = promote == 0 || promote % kPanel == 0 || short_chain;
  const bool hmma = semantics && semantics->accumulator == Accumulator::hmma;
  bound.chain_factor = (hmma ? hmma_chain(products) : wgmma_chain(products)) * (1 + 0x1p-10);
  const double promotions = double(ceil_div(k, semantics && promote ? promote : semantics ? k : 16));
  bound.fp32_factor = (promotions + 6) * kFp32 * (1 + 0x1p-10) + double(k) * 0x1p-52;
  // A scale product below 2^-126 may lose all of itself; it meets a sum of up to 128 * 448^2 < 2^25.
  bound.absolute = promotions * 0x1p-101;
  if (sums > 0 && !hmma && bound.half) bound.log_odds = std::log(2 * sums / kFailureProbability);
  return bound;
}

}  // namespace moe::reference
