// How far may a correct kernel's accumulator be from the real sum? Two bounds in front of the output
// rounding, one for every order of summation, one that holds but for a stated probability; the equations and
// their derivation stand in reference/README.md, section "Bounds".
//
// For one output element, with p_k the scaled products, S = sum p_k, A = sum |p_k| (subnormal codes counted
// at the magnitude at which the tensor core aligns them), and for each chain c of at most `chain` products
//   E_c = max(largest aligned product, (A_c + |S_c|) / 2)        no partial sum is larger than this,
// the accumulator is within
//   B = chain_factor * sum_c E_c + fp32_factor * A + absolute.
// The probable bound takes the terms that FP8 wgmma cuts as bounded random variables (chain_walk.hpp).
#pragma once
#include <cstdint>

#include "fixtures/problem/quant_scheme.hpp"
#include "fixtures/problem/semantics.hpp"

namespace moe::reference {

/// A correct kernel leaves the probable bound of one sum with at most this probability.
inline constexpr double kFailureProbability = 1e-12;

struct AccumulationBound {
  std::int64_t chain = 0;  // products between two promotions, a multiple of 128; 0 = all of K
  bool half = true;  // (A_c + |S_c|) / 2 may be used; else A_c, where chains do not nest in blocks of 128
  double chain_factor = 0;  // per chain, of E_c
  double fp32_factor = 0;   // scale products, promotions, bias and routing weight, of A
  double absolute = 0;      // underflow of fp32 scale products, flushed or not
  /// ln(2 / failure probability) of one sum, for the probable bound; 0 = none is asked for, or it would not
  /// be tighter (HMMA alone, chains that do not nest in blocks of 128).
  double log_odds = 0;
};

/// `semantics` null: any accumulator, any chain that the scheme permits (block scales: at most 128), any
/// promotion. `sums`: how many sums one judged number depends on; 0 = no probable bound.
AccumulationBound accumulation_bound(const Semantics* semantics, const QuantScheme& scheme, std::int64_t k,
                                     double sums = 0);

}  // namespace moe::reference
